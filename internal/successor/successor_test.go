package successor

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test's own program is the successor: what it does is its first argument.
func TestMain(m *testing.M) {
	if s := Current(); s != nil && len(os.Args) > 1 {
		os.Exit(act(s, os.Args[1], os.Args[2:]))
	}
	os.Exit(m.Run())
}

func act(s *Successor, role string, args []string) int {
	switch role {
	case "works":
		s.Begin()
		runtime.GC()
		Current().Decide()
		return 0
	case "refuses":
		s.Begin()
		s.Decide()
		return 4
	case "fails":
		s.Begin()
		return 1
	case "panics":
		s.Begin()
		panic("broken")
	case "is silent":
		return 0
	case "hangs":
		time.Sleep(time.Hour)
	case "hangs and obeys nobody":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case "begins and hangs":
		s.Begin()
		time.Sleep(time.Hour)
	case "leaves somebody with the pipe", "decides and leaves somebody with the pipe":
		s.Begin()
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "3"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil, s.pipe}})
		if err != nil {
			return 9
		}
		p.Release()
		if role != "leaves somebody with the pipe" {
			s.Decide()
		}
		return 1
	case "takes its time":
		time.Sleep(300 * time.Millisecond)
		s.Begin()
		time.Sleep(300 * time.Millisecond)
		s.Decide()
		return 0
	case "waits for a signal":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		s.Begin()
		<-c
		s.Decide()
		return 7
	case "says what it got":
		s.Begin()
		os.WriteFile(args[0], fmt.Appendf(nil, "%q %v", args[1:], Current() != nil), 0o600)
		s.Decide()
		return 0
	}
	return 99
}

func command(t *testing.T, args ...string) Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Path: self, Args: args, StartLimit: time.Minute, Limit: time.Minute, Untouched: func() bool { return true }}
}

func TestHowASuccessorEnds(t *testing.T) {
	for role, want := range map[string]struct {
		code    int
		decided bool
		says    string
	}{
		"works":     {0, true, ""},
		"refuses":   {4, true, "exit status 4"},
		"fails":     {1, false, "exit status 1"},
		"panics":    {2, false, "exit status 2"},
		"is silent": {0, false, "exit status 0"},
		// Whoever it leaves behind is not waited for.
		"leaves somebody with the pipe":             {1, false, "exit status 1"},
		"decides and leaves somebody with the pipe": {1, true, "exit status 1"},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			e, err := Run(t.Context(), command(t, role))
			if err != nil || e.Code != want.code || e.Decided != want.decided || (e.Err != nil) != (want.says != "") {
				t.Errorf("got %+v, %v; want %+v", e, err, want)
			}
			if e.Err != nil && !strings.Contains(e.Err.Error(), want.says) {
				t.Errorf("it says %v; want %q", e.Err, want.says)
			}
		})
	}
}

func TestASuccessorThatHangsIsEnded(t *testing.T) {
	for role, change := range map[string]func(*Command){
		"hangs":                  func(c *Command) { c.StartLimit = 300 * time.Millisecond },
		"hangs and obeys nobody": func(c *Command) { c.StartLimit = 300 * time.Millisecond },
		"begins and hangs":       func(c *Command) { c.Limit = time.Second },
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			c := command(t, role)
			change(&c)
			e, err := Run(t.Context(), c)
			if err != nil || e.Err == nil || e.Decided {
				t.Errorf("got %+v, %v; want a failure", e, err)
			}
		})
	}
}

func TestASuccessorThatChangedSomethingIsWaitedFor(t *testing.T) {
	c := command(t, "takes its time")
	c.StartLimit, c.Limit = 50*time.Millisecond, 100*time.Millisecond
	c.Untouched = func() bool { return false }
	if e, err := Run(t.Context(), c); err != nil || e.Code != 0 || !e.Decided {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	e, err := Run(ctx, command(t, "waits for a signal"))
	// On a busy machine the signal may come before the handler; then it kills.
	if err != nil || e.Code != 7 && e.Code != 128+int(syscall.SIGTERM) {
		t.Errorf("got %+v, %v; want 7", e, err)
	}
}

func TestArgumentsArrive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	if e, err := Run(t.Context(), command(t, "says what it got", file, "update", "--now", "a b")); err != nil || e.Code != 0 {
		t.Fatalf("got %+v, %v", e, err)
	}
	data, _ := os.ReadFile(file)
	if want := `["update" "--now" "a b"] true`; string(data) != want {
		t.Errorf("it got %s; want %s", data, want)
	}
}

func TestWhatCannotBeRunIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("\x7fELF, or so it says"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := command(t)
	c.Path = file
	if e, err := Run(t.Context(), c); err == nil {
		t.Errorf("got %+v and no error", e)
	}
}

// A variable that strayed into the environment must not make a program write to
// whatever it has as its third file.
func TestAnotherFileIsNotWrittenTo(t *testing.T) {
	t.Setenv(variable, "1:1")
	s := current()
	if s == nil {
		t.Fatal("the guard against loops does not hold")
	}
	if s.pipe != nil {
		t.Error("a file that is not the pipe is taken for it")
	}
	s.Begin()
	s.Decide()
	var nobody *Successor
	nobody.Begin()
}
