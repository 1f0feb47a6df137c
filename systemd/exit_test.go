package systemd

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHowAProcessEnded(t *testing.T) {
	for want, e := range map[string]ExitStatus{
		"exited with status 1":                      {Exited, 1},
		"could not be executed (status 203)":        {Exited, 203},
		"was killed by SIGKILL":                     {Killed, int32(syscall.SIGKILL)},
		"was killed by SIGSEGV and dumped core":     {Dumped, int32(syscall.SIGSEGV)},
		"was killed by signal 40":                   {Killed, 40},
		"ended":                                     {},
		"exited by itself (status 0, but a service": {Exited, 0},
	} {
		if got := e.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

func TestTheExitCodeOfATransientUnit(t *testing.T) {
	for _, w := range []struct {
		exit ExitStatus
		code int
		err  string
	}{
		{ExitStatus{Exited, 0}, 0, ""},
		{ExitStatus{Exited, 4}, 4, ""},
		{ExitStatus{Exited, 203}, -1, "could not be executed"},
		{ExitStatus{Killed, 15}, 143, "killed by SIGTERM"},
		{ExitStatus{}, -1, "did not run"},
	} {
		code, err := w.exit.shellCode("x.service", "exit-code")
		if code != w.code || (err == nil) != (w.err == "") || err != nil && !strings.Contains(err.Error(), w.err) {
			t.Errorf("%+v gives %d, %v; want %d, %q", w.exit, code, err, w.code, w.err)
		}
	}
}

// A notify service that never says it is ready is told to stop, and obeys: the status of
// that says nothing.
func TestAnAgentThatIsNeverReadyIsNotToldAsOneThatExited(t *testing.T) {
	const never = "did not say within 1m30s that it is ready, so that systemd stopped it"
	for _, tc := range []struct {
		result string
		exit   ExitStatus
		want   string
	}{
		{"timeout", ExitStatus{Exited, 0}, never},
		{"timeout", ExitStatus{Exited, 143}, never},
		{"timeout", ExitStatus{Killed, 15}, never},
		{"timeout", ExitStatus{Killed, 9}, "was killed by SIGKILL"}, // it did not stop in time
		{"protocol", ExitStatus{Exited, 0}, "exited by itself (status 0, but a service has to stay)"},
	} {
		if got := (Unit{Result: tc.result, Exit: tc.exit, StartTimeout: 90 * time.Second}).Ended(); got != tc.want {
			t.Errorf("%s, %v: %q; want %q", tc.result, tc.exit, got, tc.want)
		}
	}
}
