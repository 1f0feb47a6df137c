//go:build hosts

package hostfaults

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/sample"
	"teleport-update/integration/scenes"
)

// fullHost is a file system of a host that becomes full while a version is watched, and how the watch ends.
type fullHost struct {
	dir  string
	what string // there is none of: "inodes", "bytes"
	boot bool   // the host is cut off and boots; else the transaction is told to end
	// serves is the version that serves while the file system is full.
	serves string
}

func (f fullHost) String() string {
	ends := "told to end"
	if f.boot {
		ends = "cut off and booted"
	}
	return fmt.Sprintf("%s without %s, %s", f.dir, f.what, ends)
}

// fullHosts is the table. Where /run is full, systemd starts no agent: the new version, which serves, stays until there is room.
func fullHosts() (cases []fullHost) {
	for _, boot := range []bool{false, true} {
		for _, what := range []string{"inodes", "bytes"} {
			for _, dir := range fullDirs {
				cases = append(cases, fullHost{dir: dir, what: what, boot: boot, serves: "1.0.0"})
			}
			if !boot { // a boot makes another /run
				cases = append(cases, fullHost{dir: "/run", what: what, serves: "1.1.0"})
			}
		}
	}
	return cases
}

// fullDirs have a file system of their own.
var fullDirs = []string{"/opt", "/etc", "/usr/local", "/var/lib/teleport"}

// A file system that becomes full while a version is watched does not keep the version before from coming back on its database: at once,
// without more room. Without FAULTS=all: a few cases.
func TestAFullHostGoesBack(t *testing.T) {
	s := fullScene(t)
	some := sample.Within(budget)
	cases := sample.Spread(fullHosts())
	if !everything {
		cases = cases[:4]
	}
	some.Among(len(cases))
	tried, violations := 0, 0
	for _, c := range cases {
		if !some.Next() {
			break
		}
		tried++
		if !t.Run(c.String(), func(t *testing.T) { s.T = t; s.goesBack(c) }) {
			violations++
		}
		s.T = t
	}
	t.Logf("full file systems of hosts: %d, violations: %d%s", tried, violations, some.Cut())
}

// fullScene is a host on 1.0.0, with small file systems that outlive its boots. Its agent writes nothing by itself, or it would take the
// last bytes.
func fullScene(t *testing.T) *scene {
	s := sceneOn(t, host.Options{})
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\nstand_in:\n  rows_per_second: 0\n")
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0")
	s.Check(s.PowerOff(t.Context()))
	for _, dir := range fullDirs {
		s.onSmall(filepath.Join(s.Dir, "root", dir))
	}
	s.Check(s.Boot(t.Context()))
	s.Serves("1.0.0")
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
	s.Wants("1.1.0")
	noMore := s.WatchesLast()
	update := s.Background(host.Command{Args: []string{updater, "update", "--now"}})
	s.Watched("1.1.0")
	noMore()
	host.Wait(s.T, patience, func() error { return s.migrated() })
	s.fill(c)
	if c.boot {
		s.Check(s.Kill())
		s.Check(s.Boot(s.T.Context()))
	} else {
		s.Must("systemctl", "kill", "--signal=TERM", scenes.SwitchUnits)
		if _, err := update.Wait(); err != nil {
			s.T.Fatal(err)
		}
	}
	free := sync.OnceFunc(func() { s.Must("sh", "-c", "rm -rf $1/full; mkdir $1/full", "sh", c.dir) })
	defer free()
	s.serving(c.serves)
	if c.dir == "/run" {
		if r := s.Status(); !strings.Contains(r.Explanation, "/run") {
			s.T.Errorf("status says %s: %s", r.State, r.Explanation)
		}
	}
	free()
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		s.T.Errorf("once there is room, a run ends with %d", code)
	}
	s.Serves("1.0.0")
	s.serving("1.0.0")
	if left := s.Must("find", "/usr/local", store, scenes.AgentData+"/proc", "-name", ".tmp-*"); left != "" {
		s.T.Errorf("files are left:\n%s", left)
	}
}

// serving asserts that an agent runs a version on its own database.
func (s *scene) serving(v string) {
	s.T.Helper()
	host.Wait(s.T, patience, func() error { return s.Executes(programs + "/" + v + "/bin/teleport") })
	if got, want := s.Live().Schema, map[string]int64{"1.0.0": 1, "1.1.0": 2}[v]; got != want {
		s.T.Errorf("version %s runs on a database with schema %d; want %d", v, got, want)
	}
}

// migrated returns an error until version 1.1.0 has migrated the database.
func (s *scene) migrated() error {
	if got := s.Live().Schema; got != 2 {
		return fmt.Errorf("the database has schema %d", got)
	}
	return nil
}
