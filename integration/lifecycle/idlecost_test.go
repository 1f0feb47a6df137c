//go:build hosts

package lifecycle

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/find/server/files"
	"teleport-update/installer/decision"
	"teleport-update/integration/host"
)

// What a run of the timer with nothing to do may cost on a booted host: so many times the CPU of its one request, and so
// much memory in KiB. The goal for the CPU is 4. The limit has room for machines with small caches and for other work on the same
// processors, where the longer of two programs finds less of itself in the caches.
const (
	idleCPU    = 5.0
	idleMemory = 15 << 10
)

const (
	measured    = "/usr/local/sbin/measured"
	request     = "/usr/local/sbin/teleport-update-request"
	findAddress = "find.example:3443"
	findCA      = "/etc/find-ca.pem"
)

func TestARunWithNothingToDoCostsAFewRequests(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.secureFind("1.0.0")
	s.Must(updater, "enable", "--proxy", findAddress, "--ca-file", findCA, "--health-window", "1s",
		"--template", "https://"+findAddress+files.ReleasesPath+files.NameTemplate)
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	s.Proven()
	if r := s.Status(); r.State != decision.Idle || len(r.Conditions) > 0 {
		t.Fatalf("the host is %s: %v; what follows is about one that is idle", r.State, r.Conditions)
	}
	s.Put(s.Program(host.Program{Name: "measured", Package: "./integration/lifecycle/measured"}), measured)
	one, err := host.OneRequest(t.TempDir())
	s.Check(err)
	s.Put(s.Program(one), request)

	// Both run in the timer's unit, in turns, so that what surrounds them is the same.
	const rounds = 12
	commands := map[string]string{"tick": updater + " update", "one": request + " https://" + findAddress + "/v1/webapi/find " + findCA}
	for range rounds {
		for name, command := range commands { // in an order by chance
			s.runsInTheTimersUnit(fmt.Sprintf("%s /run/%s %s", measured, name, command))
		}
	}
	tick, oneRequest := s.costs("tick"), s.costs("one")
	if len(tick.cpu) != rounds || len(oneRequest.cpu) != rounds {
		t.Fatalf("%d and %d runs were measured; want %d each", len(tick.cpu), len(oneRequest.cpu), rounds)
	}
	cpu, bound := middle(tick.cpu), middle(oneRequest.cpu)
	t.Logf("a run with nothing to do: %d µs of CPU, %d for its one request: %.2f; %.1f MiB, %.1f for the request (each: %v, %v)",
		cpu, bound, float64(cpu)/float64(bound), float64(slices.Max(tick.kib))/1024, float64(slices.Max(oneRequest.kib))/1024, tick, oneRequest)
	if float64(cpu) > idleCPU*float64(bound) {
		t.Errorf("it costs %.2f times the CPU of its one request; want at most %g", float64(cpu)/float64(bound), idleCPU)
	}
	if most := middle(tick.kib); most > idleMemory { // the first run has more to do
		t.Errorf("it needs %d KiB of memory; want at most %d", most, idleMemory)
	}
}

// secureFind serves the scene's releases over https, with an authority of the find server's own.
func (s *scene) secureFind(v string) {
	s.T.Helper()
	dir := s.T.TempDir()
	_, err := s.ServeFind(s.T.Context(), "127.0.0.1:3443", "serve", "--listen", "127.0.0.1:3443", "--hostname", "find.example",
		"--self-signed", "--ca-out", filepath.Join(dir, "ca.pem"), "--releases", s.Releases, "--agent-version", v)
	s.Check(err)
	s.Check(s.CopyIn(filepath.Join(dir, "ca.pem"), findCA, 0o644))
	s.Write("/etc/hosts", "127.0.0.1 localhost find.example\n")
}

// runsInTheTimersUnit has systemd run a command as it runs the timer's.
func (s *scene) runsInTheTimersUnit(command string) {
	s.T.Helper()
	s.Write("/etc/systemd/system/teleport-update.service.d/50-measured.conf", "[Service]\nExecStart=\nExecStart="+command+"\n")
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "start", "teleport-update.service")
}

// costs are what a program cost in each run: CPU in microseconds, memory in KiB.
type costs struct{ cpu, kib []int }

func (s *scene) costs(name string) (c costs) {
	s.T.Helper()
	for line := range strings.Lines(s.Read("/run/" + name)) {
		var cpu, kib int
		if _, err := fmt.Sscan(line, &cpu, &kib); err != nil {
			s.T.Fatalf("%q: %v", line, err)
		}
		c.cpu, c.kib = append(c.cpu, cpu), append(c.kib, kib)
	}
	return c
}

func middle(values []int) int {
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
