//go:build hosts

package operator

import (
	"regexp"
	"strings"
	"testing"
)

// A person sees steps, how long the agent is still watched, and what is true in the end;
// what runs in a unit of its own shows the same.
func TestAPersonSeesTheWatchAndWhatIsTrueInTheEnd(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "3s")
	s.Wants("1.1.0")
	on := func(environment, command string) string {
		t.Helper()
		return s.Must("sh", "-c", environment+" script -qec '"+updater+" "+command+"' /dev/null")
	}
	out := on("TERM=xterm", "update --now")
	// What happened comes in the order in which it happened.
	rest := out
	for _, want := range []string{
		`\x1b\[36m›\x1b\[0m \d\d:\d\d:\d\d downloading \(version 1\.1\.0`,
		`\d switching \(from 1\.0\.0, to 1\.1\.0`,
		`\d backing up the agent's database`,
		`\d reloading the agent`,
		`\d watching the agent \(window 3s\)`,
		`\r  watching the agent: active \(running\), PID \d+, [0-3]s left\x1b\[K`,
		`\r\x1b\[K\x1b\[36m›\x1b\[0m \d\d:\d\d:\d\d the agent is healthy \(version 1\.1\.0\)`,
		`\x1b\[32m✓\x1b\[0m Teleport 1\.1\.0 is installed\. The agent runs it\.`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("%s does not come in\n%q\nwhich is the end of\n%q", want, rest, out)
		}
		rest = rest[at[1]:]
	}
	if out := on("TERM=dumb", "rollback"); strings.Contains(out, "\x1b") || !strings.Contains(out, "+ Teleport 1.0.0 is installed. The agent runs it.") {
		t.Errorf("a dumb terminal is sent\n%q", out)
	}
	if r := s.Try("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", updater, "status"); r.Code != 1 ||
		!strings.Contains(r.Stderr, "everybody may read /run/teleport-update/status.json: run the command as root") {
		t.Errorf("to another user, status ends with %d and says\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if out := on("TERM=xterm", "--log-format text update --now"); strings.Contains(out, "\x1b") || !strings.Contains(out, "the agent is healthy version=1.1.0") {
		t.Errorf("--log-format text shows\n%q", out)
	}
}
