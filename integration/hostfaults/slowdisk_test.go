//go:build hosts

package hostfaults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// laterLimit is the name of a drop-in that sorts after the updater's.
const (
	laterLimit = "zzzzz-host.conf"
	laterFile  = "/etc/systemd/system/service.d/" + laterLimit
)

// tooShort are a host's limits for all services, each of them far less than a restore takes here, and what a refusal says about them
// in laterLimit; empty: the limit ends nothing, and refuses nothing. systemd applies CPUQuota= and MemoryMax= where the machine gives
// hosts these controllers.
var tooShort = []struct{ limit, refusal string }{
	{"[Unit]\nJobRunningTimeoutSec=2\n[Service]\nTimeoutStartSec=2\nTimeoutStopSec=1\nRuntimeMaxSec=2\nLimitCPU=1", "=2s in " + laterFile},
	{"[Service]\nTimeoutStartSec=2", "TimeoutStartSec=2s in " + laterFile},
	{"[Service]\nTimeoutStopSec=1", "TimeoutStopSec=1s in " + laterFile},
	{"[Unit]\nJobRunningTimeoutSec=2", "JobRunningTimeoutSec=2s in " + laterFile},
	{"[Service]\nRuntimeMaxSec=2", "RuntimeMaxSec=2s in " + laterFile},
	{"[Service]\nLimitCPU=1", "LimitCPU=1s in " + laterFile},
	{"[Service]\nCPUQuota=5%", ""},
	{"[Service]\nLimitFSIZE=HALF", "LimitFSIZE=HALF in " + laterFile},
	{"[Service]\nMemoryMax=64M\nMemorySwapMax=0", ""},
}

// slowRestores are the ways in which an undoing is cut short while it restores the database, and goes on.
var slowRestores = []struct {
	name string
	cut  func(s *scene, update *host.Process)
}{
	{"cut off and booted", func(s *scene, _ *host.Process) {
		s.Check(s.Kill())
		s.Check(s.Boot(s.T.Context()))
	}},
	{"killed, and a run", func(s *scene, update *host.Process) {
		s.KillsMain(scenes.SwitchUnits)
		if _, err := update.Wait(); err != nil {
			s.T.Fatal(err)
		}
		s.Wants("1.0.0")
		s.Tick()
	}},
	{"stopped", func(s *scene, update *host.Process) {
		s.Must("systemctl", "stop", "--no-block", scenes.SwitchUnits)
		if _, err := update.Wait(); err != nil {
			s.T.Fatal(err)
		}
	}},
}

// The restore of a large database on a slow disk takes longer than a host's limits for all services (service.d) allow. They end it
// neither at a boot nor in a run: the agent of before serves on its database. Where the limit's file sorts after the updater's, the
// agent is not touched, and a refusal names the file.
func TestARestoreOnASlowDisk(t *testing.T) {
	if !everything {
		t.Skip("this campaign is for the night: `make test-nightly` runs it")
	}
	megabytes := 1000
	if given, err := strconv.Atoi(os.Getenv("FAULTS_DATABASE_MB")); err == nil {
		megabytes = given
	}
	s := largeScene(t, megabytes)
	tried, violations := 0, 0
	for _, row := range tooShort {
		half := strings.NewReplacer("HALF", strconv.Itoa(megabytes*500_000))
		limit := half.Replace(row.limit)
		name := strings.NewReplacer("[Service]\n", "", "[Unit]\n", "", "\n", " ").Replace(limit)
		s.limits("50-host.conf", limit)
		for _, way := range slowRestores {
			tried++
			if !t.Run(way.name+", "+name, func(t *testing.T) { s.T = t; s.restoresSlowly(megabytes, way.cut) }) {
				violations++
			}
			s.T = t
		}
		s.limits("50-host.conf", "")
		if row.refusal == "" {
			continue
		}
		tried++
		if !t.Run("sorts later, "+name, func(t *testing.T) { s.T = t; s.refusesLimit(limit, half.Replace(row.refusal)) }) {
			violations++
		}
		s.T = t
	}
	t.Logf("restores of %d MB on a slow disk: %d, violations: %d", megabytes, tried, violations)
}

// limits gives all services of the host a drop-in, but for those of the agent and of systemd. Without a text there is none.
func (s *scene) limits(name, text string) {
	s.T.Helper()
	for _, dir := range []string{"service.d", "systemd-.service.d", "teleport.service.d"} {
		file := "/etc/systemd/system/" + dir + "/" + name
		switch {
		case text == "":
			s.Must("rm", file)
		case dir == "service.d":
			s.Write(file, text+"\n")
		default: // a file of this name ranks above the other
			s.Write(file, "[Service]\n")
		}
	}
	s.Must("systemctl", "daemon-reload")
}

// largeScene is a host on 1.0.0 whose agent has a large database, on a disk of its own that outlives the host's boots. 1.1.0 migrates
// the database and ends.
func largeScene(t *testing.T, megabytes int) *scene {
	s := sceneOn(t, host.Options{})
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2, Variant: stamp.MigratesThenExits})
	s.Writes("wal", 20)
	s.Check(s.PowerOff(t.Context()))
	const script = `set -e; truncate -s "$3M" "$1"; mkfs.ext4 -q -m 0 "$1"; mkdir -p "$2"; mount -o loop "$1" "$2"`
	dir := filepath.Join(s.Dir, "root", scenes.AgentData)
	image := filepath.Join(t.TempDir(), "disk")
	if out, err := exec.Command("sh", "-c", script, "sh", image, dir, strconv.Itoa(6*megabytes+500)).CombinedOutput(); err != nil {
		t.Fatalf("put %s on a disk: %v: %s", dir, err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.Check(s.Boot(t.Context()))
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Grows(3)
	s.Must("sqlite3", "-cmd", ".timeout 20000", scenes.LiveFile, "CREATE TABLE other (data BLOB)")
	for left := megabytes; left > 0; left -= 100 {
		s.Must("sqlite3", "-cmd", ".timeout 20000", scenes.LiveFile, fmt.Sprintf("INSERT INTO other VALUES (zeroblob(%d000000))", min(left, 100)))
	}
	return s
}

// slow lets the disk of the agent's data take so many bytes a second, until the returned function is called or this process ends.
func (s *scene) slow(bytes int) (quick func()) {
	s.T.Helper()
	const file = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device"
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CI") == "true" {
			s.T.Fatalf("no disk can be made slow (CI=true): %v", err)
		}
		s.T.Skipf("SKIPPED, nothing was tested: no disk can be made slow: %v", err)
	}
	var stat unix.Stat_t
	s.Check(unix.Stat(filepath.Join(s.Dir, "root", scenes.AgentData), &stat))
	device := fmt.Sprintf("%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	const script = `trap 'echo "$1 0" >"$3"' EXIT; echo "$1 $2" >"$3"; echo slow; cat >/dev/null`
	cmd := exec.Command("sh", "-ec", script, "sh", device, strconv.Itoa(bytes), file)
	stdin, err := cmd.StdinPipe()
	s.Check(err)
	stdout, err := cmd.StdoutPipe()
	s.Check(err)
	s.Check(cmd.Start())
	if _, err := stdout.Read(make([]byte, 8)); err != nil {
		s.T.Fatalf("make disk %s slow: %v", device, err)
	}
	return func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			s.T.Errorf("make disk %s quick again: %v", device, err)
		}
	}
}

// restoresSlowly updates to 1.1.0, cuts its undoing short while that restores the database, and sees the host go back to 1.0.0. The
// disk takes at most a third of the database in a second.
func (s *scene) restoresSlowly(megabytes int, cut func(s *scene, update *host.Process)) {
	s.T.Helper()
	rows := s.Grows(0)
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update", "--now"}})
	s.Reaches(update, "rolling_back")
	quick := s.slow(megabytes * 1_000_000 / 3)
	defer func() { quick() }()
	time.Sleep(time.Second)
	if phase := s.Phase(); phase != "rolling_back" {
		s.T.Fatalf("the transaction was %q before its undoing could be cut short: the test shows nothing", phase)
	}
	begun := time.Now()
	cut(s, update)
	host.Wait(s.T, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
	took := time.Since(begun)
	s.T.Logf("back after %v", took.Round(100*time.Millisecond))
	if took < 3*time.Second {
		s.T.Errorf("the undoing went on for %v only, less than the limits: the test shows nothing", took)
	}
	quick()
	quick = func() {}
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		s.T.Errorf("the run after it ends with %d:\n%s", code, s.Log("teleport-update.service"))
	}
	s.Serves("1.0.0")
	live := s.Live()
	s.Whole("the database", live, 1)
	if live.Rows < rows {
		s.T.Errorf("the database has %d rows; it had %d before the update", live.Rows, rows)
	}
}

// refusesLimit asserts that a limit whose file sorts after the updater's refuses an update before its first change.
func (s *scene) refusesLimit(limit, refusal string) {
	s.T.Helper()
	s.limits(laterLimit, limit)
	defer s.limits(laterLimit, "")
	before := s.Seen()
	s.Wants("1.1.0")
	s.Fails(1, refusal, updater, "update", "--now")
	s.Wants("1.0.0")
	s.Serves("1.0.0")
	s.Whole("the database", s.Live(), 1)
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		s.T.Errorf("the agent was %s", got)
	}
}
