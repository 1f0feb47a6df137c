package scenes

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"teleport-update/integration/host"
)

// Transactions that are caught in the middle of something. Nothing here may depend on
// how fast the test is: a busy machine may let it wait for seconds.

const (
	SwitchUnits = "teleport-update-switch-*"
	// Longer is a window for a transaction that is made to pause in its watch, and goes on
	// to its end.
	Longer = "8s"
)

// WatchesLast makes the watches that begin from now on outlast any test, until the
// returned function is called. The window is read when a watch begins; so one
// that has begun lasts, and those that follow it, which have to end by
// themselves, are short again.
func (s *Scene) WatchesLast() (noMore func()) {
	s.T.Helper()
	line := regexp.MustCompile(`(?m)^(\s+window: )(\S+)$`)
	set := func(window string) (before string) {
		text := s.Read(Store + "/updates.yaml")
		found := line.FindStringSubmatch(text)
		if found == nil {
			s.T.Fatalf("updates.yaml names no window:\n%s", text)
		}
		s.Configure(line.ReplaceAllString(text, "${1}"+window))
		return found[2]
	}
	before := set("1h")
	return func() { set(before) }
}

// MidWatch begins a transaction to a version and returns in the middle of its watch,
// which does not end by itself.
func (s *Scene) MidWatch(v string) (update *host.Process) {
	s.T.Helper()
	noMore := s.WatchesLast()
	update = s.Background(host.Command{Args: []string{s.Path, "update"}})
	s.Watched(v)
	noMore()
	return update
}

// Pauses makes a transaction that has to go on later stand still where it is.
func (s *Scene) Pauses() (goOn func()) {
	s.T.Helper()
	s.Must("systemctl", "kill", "--signal=STOP", SwitchUnits)
	if s.Phase() == "" {
		s.T.Fatal("the transaction was over before it could be made to pause: the test shows nothing")
	}
	return func() { s.Must("systemctl", "kill", "--signal=CONT", SwitchUnits) }
}

// KillsMain kills the main process of a unit, and systemd the others after it. If all are to be
// signalled, systemctl fails where the unit's cgroup is gone when it comes to the others.
func (s *Scene) KillsMain(unit string) {
	s.T.Helper()
	s.Must("systemctl", "kill", "--kill-who=main", "--signal=KILL", unit)
}

// KilledInMidWatch begins an update and kills the transaction while it watches the
// version.
func (s *Scene) KilledInMidWatch(v string) {
	s.T.Helper()
	update := s.MidWatch(v)
	s.KillsMain(SwitchUnits)
	r, err := update.Wait()
	if err != nil {
		s.T.Fatal(err)
	}
	if r.Code != 1 || !strings.Contains(r.Stderr, "this was cut off: ") || !strings.Contains(r.Stderr, "was killed by SIGKILL") {
		s.T.Errorf("exit code %d; want 1, and that the transaction was killed:\n%s", r.Code, r.Stderr)
	}
}

// Phase is how far an open transaction has come, "" if none is open.
func (s *Scene) Phase() string {
	s.T.Helper()
	data, err := s.ReadFile(Store + "/journal.json")
	if err != nil {
		return ""
	}
	var j struct{ Phase string }
	if err := json.Unmarshal(data, &j); err != nil {
		s.T.Fatalf("the journal holds %q: %v", data, err)
	}
	return j.Phase
}

// Reaches waits for a phase, without the pauses of host.Wait: some are short.
func (s *Scene) Reaches(update *host.Process, phase string) {
	s.T.Helper()
	for s.Phase() != phase {
		select {
		case <-update.Done():
			r, err := update.Wait()
			s.T.Fatalf("the transaction ended without the phase %s: %v, exit code %d\n%s%s", phase, err, r.Code, r.Stdout, r.Stderr)
		case <-time.After(time.Millisecond):
		}
	}
}

// Signals sends a signal to the transaction from outside of the host. That takes no
// time: beginning a systemctl may take longer than a phase lasts.
func (s *Scene) Signals(signal syscall.Signal) {
	s.T.Helper()
	const slice = "/sys/fs/cgroup/system.slice"
	names, err := s.Names(slice)
	s.Check(err)
	sent := 0
	for _, name := range names {
		if !strings.HasPrefix(name, strings.TrimSuffix(SwitchUnits, "*")) {
			continue
		}
		// As this process sees it, the file has the outside's numbers.
		for _, pid := range strings.Fields(s.Read(slice + "/" + name + "/cgroup.procs")) {
			var n int
			fmt.Sscan(pid, &n)
			s.Check(syscall.Kill(n, signal))
			sent++
		}
	}
	if sent == 0 {
		s.T.Fatal("no transaction is at work")
	}
}

// Heavy makes the agent's database so large that what copies it, at the beginning
// of a transaction and in an undoing, takes long enough to be seen.
func (s *Scene) Heavy() {
	s.T.Helper()
	s.Must("sqlite3", "-cmd", ".timeout 10000", LiveFile, "CREATE TABLE other (data BLOB); INSERT INTO other VALUES (zeroblob(100000000))")
}

// EditJournal changes the record of the open transaction.
func (s *Scene) EditJournal(edit func(j map[string]any)) {
	s.T.Helper()
	var j map[string]any
	if err := json.Unmarshal([]byte(s.Read(Store+"/journal.json")), &j); err != nil {
		s.T.Fatal(err)
	}
	edit(j)
	data, err := json.Marshal(j)
	if err != nil {
		s.T.Fatal(err)
	}
	if err := s.WriteFile(Store+"/journal.json", data, 0o600); err != nil {
		s.T.Fatal(err)
	}
}

// Closed waits until no transaction is open and no unit is at work on one.
func (s *Scene) Closed() {
	s.T.Helper()
	host.Wait(s.T, Patience, func() error {
		if s.Exists(Store + "/journal.json") {
			return fmt.Errorf("the journal is still there")
		}
		running := s.Must("systemctl", "list-units", "--plain", "--no-legend", "--state=running", "teleport-update-switch-*")
		if running != "" {
			return fmt.Errorf("a transaction is still at work: %s", running)
		}
		return nil
	})
}
