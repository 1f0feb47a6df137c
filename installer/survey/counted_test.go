package survey

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// counted is a host that counts how often each source is read. The files of its store and of its
// kernel are real.
type counted struct {
	reads map[string]int
	fails string // the source that cannot be read
	why   error
}

func (c counted) read(source string) error {
	c.reads[source]++
	if source == c.fails {
		return c.why
	}
	return nil
}

func (c counted) Config() (state.Config, error) {
	config := state.EmptyConfig()
	config.Spec.ActiveVersion, config.Status.ActiveEdition = active.Version, active.Edition
	return config, c.read("config")
}

func (c counted) Journal() (*transaction.Description, error) {
	return &transaction.Description{Working: "it works"}, c.read("journal")
}

func (c counted) Ticks() state.Ticks              { c.reads["ticks"]++; return state.Ticks{} }
func (c counted) History() (state.History, error) { return state.History{}, c.read("history") }

func (c counted) Look(context.Context) (transaction.Sight, error) {
	return transaction.Sight{State: state.AgentRunning}, c.read("agent")
}

func (c counted) Unit(_ context.Context, name string) (systemd.Unit, error) {
	return systemd.Unit{Name: name}, c.read(name)
}

func (c counted) Blockers(context.Context, transaction.Sight) ([]string, error) {
	return nil, c.read("blockers")
}

func (c counted) Close() { c.reads["close"]++ }

func (c counted) Problems(versions.Tree) ([]string, error) {
	return []string{"a link is gone"}, c.read("links")
}
func (c counted) CheckStarts(systemd.Unit, versions.Tree) error { return c.read("starts") }
func (c counted) CheckNextStart(context.Context, systemd.Unit, string) error {
	return c.read("next start")
}
func (c counted) AgentUnit() host.AgentUnit          { return host.AgentUnit{} }
func (c counted) IsUnit(string) bool                 { return true }
func (c counted) AboveOurs(string) bool              { return false }
func (c counted) CheckDatabaseThere(int, bool) error { return c.read("database there") }
func (c counted) Path() (string, error)              { return "/none", c.read("configuration") }
func (c counted) Settings() (host.AgentSettings, error) {
	return host.AgentSettings{}, c.read("settings")
}
func (c counted) CheckOthersCame() *failure.Error {
	c.reads["other updaters"]++
	return nil
}
func (c counted) Servers() (string, error) { return "", c.read("servers") }
func (c counted) CheckNeverEnabled() error { return c.read("never enabled") }

// CheckEnded and CheckPair look at what they are given.
func (c counted) CheckEnded(ctx context.Context, _ state.Config, seen transaction.Seen) error {
	_, err := seen.Schema(ctx)
	return errors.Join(c.read("ended"), err)
}

func (c counted) CheckLed(context.Context, versions.Tree, transaction.Seen) error { return nil }

func (c counted) CheckPair(ctx context.Context, _ state.Config, _ versions.Tree, seen transaction.Seen) error {
	_, err := seen.Sight(ctx)
	_, unread := seen.Schema(ctx)
	return errors.Join(c.read("pair"), err, unread)
}

// CheckTables looks at what it is given.
func (c counted) CheckTables(ctx context.Context, _ state.Config, seen transaction.Seen) (why, err error) {
	_, err = seen.Schema(ctx)
	return nil, errors.Join(c.read("tables"), err)
}

func (c counted) Schema(context.Context) (string, error) { return "1-ab", c.read("schema") }

func (c counted) Rescuer(context.Context) (string, int, error)               { return "", 0, c.read("rescuer") }
func (c counted) CheckRecovery(context.Context, systemd.Unit) *failure.Error { return nil }
func (c counted) CheckLimits(systemd.Unit) *failure.Error                    { return nil }
func (c counted) OwnUnits() systemd.Units                                    { c.reads["own units"]++; return systemd.Units{} }

// active is the version that is on the host's disk.
var active = version.Release{Version: "1.0.0", Edition: version.OSS}

// surveyOf surveys a host with a whole version, and a service that executes one of its programs. All
// its files are in root.
func surveyOf(t *testing.T, c counted) (s *Survey, root string) {
	t.Helper()
	root = t.TempDir()
	paths := state.Paths{DataDir: filepath.Join(root, "data"), UnitDir: filepath.Join(root, "units"), AgentConfig: filepath.Join(root, "teleport.yaml")}
	processes := procfs.FS{Proc: filepath.Join(root, "proc"), Cgroups: filepath.Join(root, "cgroup")}
	release := filepath.Join(paths.Versions(), active.Version)
	for path, text := range map[string]string{
		filepath.Join(release, "edition"):                   "oss\n",
		filepath.Join(release, "manifest"):                  "",
		filepath.Join(release, "sha256"):                    strings.Repeat("ab", 32) + "\n",
		filepath.Join(release, "bin", "teleport"):           "",
		filepath.Join(release, "bin", "tbot"):               "",
		filepath.Join(processes.Proc, "47", "cgroup"):       "0::/system.slice/tbot.service\n",
		filepath.Join(processes.Proc, "self", "mountinfo"):  "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / " + paths.UnitDir + " rw - ext4 /dev/sda2 rw\n",
		filepath.Join(paths.UnitDir, "teleport.service"):    "",
		filepath.Join(processes.Cgroups, "cgroup.controls"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(release, "bin", "tbot"), filepath.Join(processes.Proc, "47", "exe")); err != nil {
		t.Fatal(err)
	}
	return New(Sources{
		StateFiles: c, Place: c, Configuration: c, Updater: c, Fits: c, Store: versions.NewStore(paths.Versions()), Processes: processes, Paths: paths, Now: time.Now,
		Connect: func(context.Context) (Manager, error) { return c, c.read("connect") },
		Reach: func(context.Context, systemd.Unit, host.AskUnit) (why, err error) {
			return nil, c.read("reach")
		},
	}), root
}
