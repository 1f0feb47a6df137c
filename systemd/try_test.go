package systemd

import (
	"slices"
	"testing"
)

func TestWordsAboutATrial(t *testing.T) {
	const (
		set    = `{"MESSAGE":"tu-canary-x.service: Failed at step USER spawning /x: No such process","MESSAGE_ID":"` + spawnFailed + `"}` + "\n"
		result = `{"MESSAGE":"tu-canary-x.service: Failed with result 'exit-code'.","MESSAGE_ID":"` + unitResult + `"}` + "\n"
		files  = `{"MESSAGE":"tu-canary-x.service: Failed to load environment files: No such file or directory"}` + "\n"
		bytes  = `{"MESSAGE":[84,255]}` + "\n"
	)
	for journal, want := range map[string][]string{
		"":                               nil,
		result + bytes + "no JSON\n":     nil,
		files + files + result:           {"Failed to load environment files: No such file or directory"},
		files + set + result:             {"Failed at step USER spawning /x: No such process"},
		`{"MESSAGE":"","MESSAGE_ID":""}`: nil,
	} {
		if got := parseWords("tu-canary-x.service", journal); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", journal, got, want)
		}
	}
}

func TestWellIsAProgramThatEndedWellInAUnitThatIsActive(t *testing.T) {
	well := Unit{ActiveState: "active", Result: "success", Exit: ExitStatus{Code: Exited}}
	skipped, failed, killed, other := well, well, well, well
	skipped.ActiveState, skipped.Exit = "inactive", ExitStatus{}
	failed.Result, killed.Exit, other.Exit = "exit-code", ExitStatus{Killed, 0}, ExitStatus{Exited, 1}
	for _, u := range []Unit{skipped, failed, killed, other, {}} {
		if (Tried{Unit: u}).Well() {
			t.Errorf("%+v counts as well", u)
		}
	}
	if !(Tried{Unit: well}).Well() {
		t.Error("a program that ended well does not count as well")
	}
}
