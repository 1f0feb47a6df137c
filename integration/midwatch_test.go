//go:build hosts

package integration

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"teleport-update/integration/host"
)

// Switches that are caught in the middle of something. Nothing here may depend on
// how fast the test is: a busy machine may let it wait for seconds.

const (
	switchUnits = "teleport-update-switch-*"
	// longer is a window for a switch that is made to pause in its watch, and goes on
	// to its end.
	longer = "8s"
)

// watchesLast makes the watches that begin from now on outlast any test, until the
// returned function is called. The window is read when a watch begins; so one
// that has begun lasts, and those that follow it, which have to end by
// themselves, are short again.
func (s *scene) watchesLast() (noMore func()) {
	s.t.Helper()
	line := regexp.MustCompile(`(?m)^(\s+window: )(\S+)$`)
	set := func(window string) (before string) {
		text := s.Read(store + "/updates.yaml")
		found := line.FindStringSubmatch(text)
		if found == nil {
			s.t.Fatalf("updates.yaml names no window:\n%s", text)
		}
		s.configure(line.ReplaceAllString(text, "${1}"+window))
		return found[2]
	}
	before := set("1h")
	return func() { set(before) }
}

// midWatch begins a switch to a version and returns in the middle of its watch,
// which does not end by itself.
func (s *scene) midWatch(v string) (update *host.Process) {
	s.t.Helper()
	noMore := s.watchesLast()
	update = s.Background(host.Command{Args: []string{s.path, "update"}})
	s.watched(v)
	noMore()
	return update
}

// pauses makes a switch that has to go on later stand still where it is.
func (s *scene) pauses() (goOn func()) {
	s.t.Helper()
	s.Must("systemctl", "kill", "--signal=STOP", switchUnits)
	if s.phase() == "" {
		s.t.Fatal("the switch was over before it could be made to pause: the test shows nothing")
	}
	return func() { s.Must("systemctl", "kill", "--signal=CONT", switchUnits) }
}

// killedInMidWatch begins an update and kills the switch while it watches the
// version.
func (s *scene) killedInMidWatch(v string) {
	s.t.Helper()
	update := s.midWatch(v)
	s.Must("systemctl", "kill", "--signal=KILL", switchUnits)
	r, err := update.Wait()
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Code != 1 || !strings.Contains(r.Stderr, "this was cut off: ") || !strings.Contains(r.Stderr, "was killed by SIGKILL") {
		s.t.Errorf("exit code %d; want 1, and that the switch was killed:\n%s", r.Code, r.Stderr)
	}
}

// killedInSecondWatch begins a recovery and kills it while it watches the version
// once more.
func (s *scene) killedInSecondWatch() {
	s.t.Helper()
	noMore := s.watchesLast()
	s.Must("systemd-run", "--unit=again", "--collect", updater, "recover")
	s.watchedAgain()
	s.Must("systemctl", "kill", "--signal=KILL", "again.service")
	noMore()
}

// watchedAgain waits until a second watch has begun: who is killed after it has
// read how long it is to watch is killed in mid-watch.
func (s *scene) watchedAgain() {
	s.t.Helper()
	host.Wait(s.t, patience, func() error {
		if journal := s.Read(store + "/journal.json"); !strings.Contains(journal, `"again": true`) {
			return fmt.Errorf("the journal does not tell of a second watch:\n%s", journal)
		}
		return nil
	})
}

// phase is how far an open switch has come, "" if none is open.
func (s *scene) phase() string {
	s.t.Helper()
	data, err := s.ReadFile(store + "/journal.json")
	if err != nil {
		return ""
	}
	var j struct{ Phase string }
	if err := json.Unmarshal(data, &j); err != nil {
		s.t.Fatalf("the journal holds %q: %v", data, err)
	}
	return j.Phase
}

// reaches waits for a phase, without the pauses of host.Wait: some are short.
func (s *scene) reaches(update *host.Process, phase string) {
	s.t.Helper()
	for s.phase() != phase {
		select {
		case <-update.Done():
			s.t.Fatalf("the switch ended without the phase %s", phase)
		case <-time.After(time.Millisecond):
		}
	}
}

// signals sends a signal to the switch from outside of the host. That takes no
// time: beginning a systemctl may take longer than a phase lasts.
func (s *scene) signals(signal syscall.Signal) {
	s.t.Helper()
	const slice = "/sys/fs/cgroup/system.slice"
	names, err := s.Names(slice)
	s.check(err)
	sent := 0
	for _, name := range names {
		if !strings.HasPrefix(name, strings.TrimSuffix(switchUnits, "*")) {
			continue
		}
		// As this process sees it, the file has the outside's numbers.
		for _, pid := range strings.Fields(s.Read(slice + "/" + name + "/cgroup.procs")) {
			var n int
			fmt.Sscan(pid, &n)
			s.check(syscall.Kill(n, signal))
			sent++
		}
	}
	if sent == 0 {
		s.t.Fatal("no switch is at work")
	}
}

// heavy makes the agent's database so large that what copies it, at the beginning
// of a switch and in an undoing, takes long enough to be seen.
func (s *scene) heavy() {
	s.t.Helper()
	s.Must("sqlite3", "-cmd", ".timeout 10000", liveFile, "CREATE TABLE other (data BLOB); INSERT INTO other VALUES (zeroblob(100000000))")
}
