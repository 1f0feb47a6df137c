//go:build hosts

package hostfaults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/sample"
	"teleport-update/integration/scenes"
)

// fullHost is a file system of a host that becomes full in a phase of a change of version, and how the change goes on.
type fullHost struct {
	change fullChange
	phase  string // of the transaction
	dir    string
	what   string // there is none of: "inodes", "bytes"
	boot   bool   // the host is cut off and boots; else the transaction is told to end
}

func (f fullHost) String() string {
	ends := "told to end"
	if f.boot {
		ends = "cut off and booted"
	}
	return fmt.Sprintf("%s, %s, %s without %s, %s", f.change.name, f.phase, f.dir, f.what, ends)
}

// fullChange is a change of version with an undoing of its own.
type fullChange struct {
	name, from, to string
	prepare        func(s *scene) // brings the host of the changes before to from
	command        []string
}

// fullChanges are made one after the other on one host, which is on 0.9.0, an agent without an updater.
func fullChanges() []fullChange {
	enable := []string{updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", enableWindow}
	return []fullChange{
		{name: "first enable", from: "0.9.0", to: "1.0.0", command: enable, prepare: func(*scene) {}},
		{name: "update", from: "1.0.0", to: "1.1.0", command: []string{updater, "update", "--now"}, prepare: func(s *scene) {
			s.Wants("1.0.0")
			s.Enable()
			s.Serves("1.0.0")
		}},
		{name: "roll-forward", from: "1.0.0", to: "1.1.0", command: []string{updater, "update", "--now"}, prepare: func(s *scene) {
			s.goesTo("1.1.0")
			s.goesTo("1.0.0")
		}},
		// Unnamed, a version is refused after three interrupted transactions to it.
		{name: "rollback", from: "1.1.0", to: "1.0.0", command: []string{updater, "rollback", "1.0.0"}, prepare: func(s *scene) { s.goesTo("1.1.0") }},
	}
}

// goesTo brings the host to a version, which may have failed before.
func (s *scene) goesTo(v string) {
	s.T.Helper()
	s.Wants(v)
	s.Must(updater, "update", "--now")
	s.Serves(v)
}

// enableWindow is the window of each watch of a first enable: that of the new version, and that of the version before.
const enableWindow = "10s"

// fullSchemas are those of the database of each version.
var fullSchemas = map[string]int64{"0.9.0": 1, "1.0.0": 1, "1.1.0": 2}

// fullPhases are those in which a transaction can be stopped. After proven there is only forward.
var fullPhases = []string{"begun", "switched", "rolling_back", "restored"}

// fullHosts are the cases of a change. A boot makes another /run.
func fullHosts(c fullChange) (cases []fullHost) {
	for _, phase := range fullPhases {
		for _, boot := range []bool{false, true} {
			for _, what := range []string{"inodes", "bytes"} {
				for _, dir := range append(slices.Clone(fullDirs), "/run") {
					if dir != "/run" || !boot {
						cases = append(cases, fullHost{change: c, phase: phase, dir: dir, what: what, boot: boot})
					}
				}
			}
		}
	}
	return cases
}

// fullDirs have a file system of their own.
var fullDirs = []string{"/opt", "/etc", "/usr/local", "/var/lib/teleport"}

// A file system that becomes full in any phase of a change of version does not keep the version before from coming back on its database:
// at once, without more room. Without FAULTS=all: a few cases of an update in mid-watch.
func TestAFullHostGoesBack(t *testing.T) {
	s := fullScene(t)
	some := sample.Within(budget)
	tried, violations := 0, 0
	for _, change := range fullChanges() {
		s.T = t
		if !everything && change.name == "roll-forward" {
			break
		}
		change.prepare(s)
		cases := sample.Spread(fullHosts(change))
		if only := os.Getenv("FAULTS_CASES"); only != "" {
			cases = slices.DeleteFunc(cases, func(c fullHost) bool { return !regexp.MustCompile(only).MatchString(c.String()) })
		} else if !everything {
			cases = slices.DeleteFunc(cases, func(c fullHost) bool { return c.change.name != "update" || c.phase != "switched" })
			cases = cases[:min(3, len(cases))]
		}
		some.Among(len(cases))
		for _, c := range cases {
			if !some.Next() {
				break
			}
			tried++
			if !t.Run(c.String(), func(t *testing.T) { s.T = t; s.goesBack(c) }) {
				violations++
			}
		}
	}
	t.Logf("full file systems of hosts: %d, violations: %d%s", tried, violations, some.Cut())
}

// fullScene is a host with an agent that runs without an updater, and with small file systems that outlive its boots. The agent writes
// nothing by itself but for its first row, or it would take the last bytes.
func fullScene(t *testing.T) *scene {
	s := sceneOn(t, host.Options{})
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunPreExisting("0.9.0", scenes.PreExistingAgents["by hand"])
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\nstand_in:\n  rows_per_second: 0\n")
	s.Check(s.PowerOff(t.Context()))
	for _, dir := range fullDirs {
		s.onSmall(filepath.Join(s.Dir, "root", dir))
	}
	s.Check(s.Boot(t.Context()))
	s.serving("0.9.0")
	return s
}

// onSmall puts a folder of a host that is off on a file system with room for two more versions.
func (s *scene) onSmall(dir string) {
	s.T.Helper()
	const script = `set -e; m=$(mktemp -d); k=$(du -skx "$1" | cut -f1)
mount -t tmpfs -o size=$((k + 98304))k,nr_inodes=$(($(find "$1" | wc -l) + 2000)),mode=755 small $m
cp -a "$1/." $m/; mkdir $m/full; mount --move $m "$1"; rmdir $m`
	if out, err := exec.Command("sh", "-c", script, "sh", dir).CombinedOutput(); err != nil {
		s.T.Fatalf("put %s on a small file system: %v: %s", dir, err, out)
	}
	s.T.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			s.T.Error(err)
		}
	})
}

// fill leaves nothing of a file system.
func (s *scene) fill(c fullHost) {
	s.T.Helper()
	script := `cd $1/full; head -c 1G /dev/zero >bytes 2>/dev/null; true`
	if c.what == "inodes" {
		script = `cd $1/full; i=0; while [ $i -lt 20 ]; do seq -f $i-%g 1 2000 | xargs touch 2>/dev/null || exit 0; i=$((i+1)); done`
	}
	s.Must("sh", "-c", "mkdir -p $1/full; "+script, "sh", c.dir)
	bytes, files := s.Free(c.dir)
	if c.what == "inodes" && files > 0 || c.what == "bytes" && bytes > 0 {
		s.T.Fatalf("%s still has %d bytes and %d files", c.dir, bytes, files)
	}
}

// goesBack plays a case, and brings the host back to where it began.
func (s *scene) goesBack(c fullHost) {
	s.T.Helper()
	if c.dir == "/run" {
		s.Must("sh", "-c", "mount -o remount,size=64M,nr_inodes=$(($(find /run | wc -l) + 1000)) /run")
	}
	update := s.stopsIn(c)
	s.fill(c)
	free := sync.OnceFunc(func() { s.Must("sh", "-c", "rm -rf $1/full; mkdir $1/full", "sh", c.dir) })
	defer free()
	if c.boot {
		s.Check(s.Kill())
		s.Check(s.Boot(s.T.Context()))
	} else {
		s.Signals(unix.SIGTERM)
		s.Signals(unix.SIGCONT)
		if _, err := update.Wait(); err != nil {
			s.T.Fatal(err)
		}
	}
	own := c.dir == "/run" || c.dir == scenes.AgentData // the agent itself needs room there to start
	switch {
	case own && c.phase == "restored", c.dir == "/run" && c.phase == "rolling_back":
	case c.dir == "/run" && c.phase == "switched": // systemd starts no agent: the one that serves stays until there is room
		s.serving(c.change.to)
	default:
		s.serving(c.change.from)
	}
	if own {
		host.Wait(s.T, patience, func() error { return s.saysWhyOpen(c.dir) })
	}
	free()
	s.Wants(c.change.from)
	if c.change.from == "0.9.0" { // no run of the timer comes
		s.Must(updater, "recover")
	} else {
		if code := s.Tick(); code != 0 {
			s.T.Errorf("once there is room, a run ends with %d", code)
		}
		s.Serves(c.change.from)
	}
	s.serving(c.change.from)
	if left := s.Must("find", "/usr/local", store, scenes.AgentData+"/proc", "-name", ".tmp-*"); left != "" {
		s.T.Errorf("files are left:\n%s", left)
	}
}

// saysWhyOpen returns an error if a transaction is open, a folder is full, and status does not name it.
func (s *scene) saysWhyOpen(dir string) error {
	bytes, files := s.Free(dir)
	if r := s.Status(); s.Phase() != "" && min(bytes, files) == 0 && !strings.Contains(r.Explanation, dir) {
		return fmt.Errorf("%s is full, and status says %s: %s", dir, r.State, r.Explanation)
	}
	return nil
}

// stopsIn begins a change and stops its transaction in a phase: in switched, once the new version has migrated the database.
func (s *scene) stopsIn(c fullHost) (update *host.Process) {
	s.T.Helper()
	s.Wants(c.change.to)
	noMore := func() {}
	if c.change.name != "first enable" {
		noMore = sync.OnceFunc(s.WatchesLast())
		defer noMore()
	}
	if c.change.name == "rollback" {
		s.Wants(c.change.from)
	}
	update = s.Background(host.Command{Args: c.change.command})
	if c.phase != "begun" {
		s.Watched(c.change.to)
		noMore()
		host.Wait(s.T, patience, func() error { return s.migrated(c.change.to) })
	}
	if c.phase == "rolling_back" || c.phase == "restored" {
		s.Signals(unix.SIGTERM)
	}
	s.Reaches(update, c.phase)
	s.Signals(unix.SIGSTOP)
	if phase := s.Phase(); phase != c.phase {
		s.T.Logf("stopped in %q, not in %q", phase, c.phase)
	}
	return update
}

// program is what an agent of a version executes.
func (s *scene) program(v string) string {
	if v == "0.9.0" {
		return linkDir + "/teleport"
	}
	return programs + "/" + v + "/bin/teleport"
}

// serving asserts that an agent runs a version on its own database.
func (s *scene) serving(v string) {
	s.T.Helper()
	host.Wait(s.T, patience, func() error { return s.Executes(s.program(v)) })
	s.Check(s.migrated(v))
}

// migrated returns an error if the database is not that of a version.
func (s *scene) migrated(v string) error {
	if got := s.Live().Schema; got != fullSchemas[v] {
		return fmt.Errorf("version %s runs on a database with schema %d; want %d", v, got, fullSchemas[v])
	}
	return nil
}
