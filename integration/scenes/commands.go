package scenes

import (
	"encoding/json"
	"fmt"
	"strings"

	"teleport-update/integration/host"
)

// Endat is the program that ends a transaction at one of its calls.
var Endat = host.Program{Name: "endat", Package: "./integration/trace/endat"}

// EndatReport is what endat prints.
type EndatReport struct {
	Calls    int
	Killed   bool
	At       string
	ExitCode int `json:"exit_code"`
	List     []string
	Held     []string // moments at which it was held
}

// KilledBefore runs a command of the updater, and kills it before its first call
// that changes a file with this in its path.
func (s *Scene) KilledBefore(path string, args ...string) {
	s.T.Helper()
	out := s.Must(append([]string{"/root/endat", "-before", path, Updater}, args...)...)
	var report EndatReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Killed {
		s.T.Fatalf("%v was not killed before %s: %v, %s", args, path, err, out)
	}
}

// Switching waits until a transaction to a version has been begun, and the agent may
// be told any moment.
func (s *Scene) Switching(v string) {
	s.T.Helper()
	host.Wait(s.T, Patience, func() error {
		if got := s.Link(LinkDir + "/teleport"); got != Programs+"/"+v+"/bin/teleport" {
			return fmt.Errorf("teleport leads to %s", got)
		}
		return nil
	})
}

// Switched asserts how often a transaction to a version was begun.
func (s *Scene) Switched(times int, v string) {
	s.T.Helper()
	log := s.Logged()
	if n := strings.Count(log, " to="+v+" database="); n != times {
		s.T.Errorf("there were %d transactions to %s; want %d:\n%s", n, v, times, log)
	}
}

// Ends waits for a command and asserts its exit code.
func (s *Scene) Ends(p *host.Process, code int) {
	s.T.Helper()
	r, err := p.Wait()
	if err != nil {
		s.T.Fatal(err)
	}
	if r.Code != code {
		s.T.Errorf("exit code %d, want %d:\n%s%s", r.Code, code, r.Stdout, r.Stderr)
	}
}
