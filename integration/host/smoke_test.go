//go:build hosts

package host

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
)

// agents installs releases of the stand-in agent on a host without an updater,
// as an administrator would by hand.
type agents struct {
	*Test
	t   *testing.T
	dir string
}

func newAgents(t *testing.T) *agents {
	t.Parallel()
	a := &agents{ForTest(t, Options{}), t, t.TempDir()}
	a.Write("/etc/teleport.yaml", "teleport: {diag_addr: '127.0.0.1:3000'}\n")
	return a
}

// install unpacks a release on the host, links it and its unit.
func (a *agents) install(s release.Spec) {
	a.t.Helper()
	var err error
	if s.Agent, err = Build(a.t.Context(), Agent()); err != nil {
		a.t.Fatal(err)
	}
	path, _, err := release.Build(a.dir, s)
	if err != nil {
		a.t.Fatal(err)
	}
	to := filepath.Join(a.Dir, "root/opt", s.Version)
	if err := os.MkdirAll(to, 0o755); err != nil {
		a.t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-xzf", path, "-C", to, "--strip-components=1").CombinedOutput(); err != nil {
		a.t.Fatalf("%v: %s", err, out)
	}
	a.Must("ln", "-sfn", "/opt/"+s.Version+"/teleport", "/usr/local/bin/teleport")
	a.Must("cp", "/opt/"+s.Version+"/examples/systemd/teleport.service", "/etc/systemd/system/teleport.service")
	a.Must("systemctl", "daemon-reload")
}

// serving is what the process that answers says of itself.
type serving struct {
	Version string
	Pid     int
	Schema  int
}

func (a *agents) serving() (s serving, err error) {
	resp, err := a.HTTP().Get("http://127.0.0.1:3000/version")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

func (a *agents) await(version string) {
	a.t.Helper()
	Wait(a.t, 10*time.Second, func() error {
		s, err := a.serving()
		if err == nil && s.Version != version {
			err = fmt.Errorf("%s serves; want %s", s.Version, version)
		}
		return err
	})
}

func (a *agents) awaitProperty(property, want string) {
	a.t.Helper()
	Wait(a.t, Patience, func() error {
		if got := a.Show("teleport", property); got != want {
			return fmt.Errorf("%s is %s; want %s", property, got, want)
		}
		return nil
	})
}

// awaitRestarts waits until systemd has restarted the agent so often. Between two
// looks it may do so more than once.
func (a *agents) awaitRestarts(atLeast int) {
	a.t.Helper()
	Wait(a.t, Patience, func() error {
		got := a.Show("teleport", "NRestarts")
		if n, err := strconv.Atoi(got); err != nil || n < atLeast {
			return fmt.Errorf("systemd has restarted it %s times; want %d", got, atLeast)
		}
		return nil
	})
}

func TestSystemdFollowsAHandover(t *testing.T) {
	for _, kind := range []string{"simple", "notify"} {
		t.Run(kind, func(t *testing.T) {
			a := newAgents(t)
			unit := release.Unit{Type: kind}
			a.install(release.Spec{Version: "1.0.0", Unit: unit})
			a.Must("systemctl", "enable", "--now", "teleport")
			a.await("1.0.0")
			old, invocation := a.Show("teleport", "MainPID"), a.Show("teleport", "InvocationID")
			if got := a.MainExecutable("teleport"); got != "/opt/1.0.0/teleport" {
				t.Errorf("the main process executes %s", got)
			}

			a.install(release.Spec{Version: "1.1.0", Unit: unit, Schema: 2})
			a.Must("systemctl", "reload", "teleport")
			a.await("1.1.0")
			Wait(t, 10*time.Second, func() error {
				if got := a.MainExecutable("teleport"); got != "/opt/1.1.0/teleport" {
					return fmt.Errorf("the main process executes %s", got)
				}
				return nil
			})
			if got := a.Show("teleport", "MainPID"); got == old {
				t.Error("the main PID did not change")
			}
			if got := a.Show("teleport", "InvocationID"); got != invocation {
				t.Error("the unit was started anew")
			}
			if got := a.Show("teleport", "NRestarts"); got != "0" {
				t.Errorf("%s restarts", got)
			}

			if err := a.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.await("1.1.0")
		})
	}
}

func TestAnOldProcessDrainsInTheUnit(t *testing.T) {
	a := newAgents(t)
	a.install(release.Spec{Version: "1.0.0", Variant: stamp.Drains, DrainFor: 15 * time.Second})
	a.Must("systemctl", "start", "teleport")
	a.await("1.0.0")
	old := a.Show("teleport", "MainPID")
	a.install(release.Spec{Version: "1.1.0"})
	a.Must("systemctl", "reload", "teleport")
	a.await("1.1.0")
	// Which of the two systemd takes for the main process meanwhile depends on
	// whether the hand-over or ExecReload ended first. The PID file is exact.
	now := strings.TrimSpace(a.Read("/run/teleport.pid"))
	if got := a.Must("readlink", "/proc/"+now+"/exe"); now == old || got != "/opt/1.1.0/teleport" {
		t.Errorf("the PID file names %s, which executes %s", now, got)
	}
	if got := a.Must("readlink", "/proc/"+old+"/exe"); got != "/opt/1.0.0/teleport" {
		t.Errorf("the old process executes %s", got)
	}
	Wait(t, 10*time.Second, func() error {
		if a.Exists("/proc/" + old) {
			return fmt.Errorf("the old process is still there")
		}
		return nil
	})
	a.awaitProperty("MainPID", now)
	a.awaitProperty("ActiveState", "active")
}

func TestWhatSystemdShowsOfBrokenReleases(t *testing.T) {
	for _, tc := range []struct {
		variant  stamp.Variant
		property string
		want     string
	}{
		{stamp.ExitsAtStart, "NRestarts", "at least 2"},
		{stamp.ExitsZero, "ActiveState", "inactive"},
		{stamp.MigratesThenExits, "Result", "exit-code"},
		{stamp.CrashLoops, "NRestarts", "at least 2"},
		{stamp.DiesOnReload, "NRestarts", "at least 2"},
		{stamp.HandoverDies, "SubState", "running"},
		{stamp.NeverReady, "SubState", "running"},
	} {
		t.Run(string(tc.variant), func(t *testing.T) {
			a := newAgents(t)
			a.install(release.Spec{Version: "1.0.0", Variant: tc.variant, CrashAfter: 200 * time.Millisecond, Unit: release.Unit{RestartDelay: 100 * time.Millisecond}})
			a.Must("systemctl", "start", "teleport") // Type=simple: succeeds whatever follows
			if tc.property == "NRestarts" {
				a.awaitRestarts(2)
				return
			}
			a.awaitProperty(tc.property, tc.want)
		})
	}
}

func TestAStopThatHangsTakesTheUnitsTimeLimit(t *testing.T) {
	a := newAgents(t)
	a.install(release.Spec{Version: "1.0.0", Variant: stamp.HangsOnStop, Unit: release.Unit{StopTimeout: 500 * time.Millisecond}})
	a.Must("systemctl", "start", "teleport")
	a.await("1.0.0")
	a.Must("systemctl", "stop", "teleport")
	if got := a.Show("teleport", "Result"); got != "timeout" {
		t.Errorf("the unit's result is %s; want timeout", got)
	}
}
