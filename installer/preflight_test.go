package installer

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// looks counts how often an agent is looked at.
type looks struct {
	seen
	n *int
}

func (l looks) Look(ctx context.Context) (transaction.Sight, error) {
	*l.n++
	return l.seen.Look(ctx)
}

func (looks) DaemonReload(context.Context) error { return nil }

func (looks) StartTimer(context.Context, string, bool) error { return nil }

func (looks) RunTransient(context.Context, systemd.Transient) (int, bool, error) { return 0, true, nil }

// changes are the commands that may lead to a change of version, up to where they would fetch it.
var changes = map[string]func(context.Context, *world) error{
	"update": func(ctx context.Context, w *world) error {
		_, _, err := w.consider(ctx, UpdateOptions{})
		return err
	},
	"enable": func(ctx context.Context, w *world) error {
		_, err := w.considerEnable(ctx, EnableOptions{}, &offer{})
		return err
	},
	"pin": func(ctx context.Context, w *world) error { return w.Pin(ctx, "1.1.0", PinOptions{}) },
	"rollback": func(ctx context.Context, w *world) error {
		_, err := w.considerRollback(ctx, RollbackOptions{Force: true})
		return err
	},
	"a dry run": func(ctx context.Context, w *world) error {
		_, err := w.UpdatePlan(ctx, UpdateOptions{})
		return err
	},
	"a dry run of a rollback": func(ctx context.Context, w *world) error {
		_, err := w.RollbackPlan(ctx, RollbackOptions{Force: true})
		return err
	},
}

// What would make systemd refuse the transaction is found before a version is fetched for it, by every
// command alike. The agent is looked at once for that.
func TestEveryCommandAsksThePreflight(t *testing.T) {
	for name, command := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if name == "enable" {
				needsEarlyFolder(t, w)
			}
			w.Machine.Scheduled = false
			whole(t, w.Installer, version.Release{Version: "1.0.0", Edition: version.OSS}, version.Release{Version: "0.9.0", Edition: version.OSS})
			c, err := w.Machine.Host.Paths.LoadConfig()
			must(t, err)
			c.Spec.Proxy, c.Spec.Enabled, c.Spec.URLTemplates = w.url, true, []string{w.url + "/a/{{.Version}}.tar.gz"}
			c.Spec.ActiveVersion, c.Status = "1.0.0", state.Status{ActiveEdition: version.OSS, PreviousVersion: "0.9.0", PreviousEdition: version.OSS,
				ActiveSchema: "noted", CommittedVersion: "1.0.0"}
			must(t, c.Save(w.Machine.Host.Paths.Config()))
			makeDatabase(t, filepath.Join(w.Machine.Host.Paths.DataDir, "proc", "sqlite.db"))
			n := 0
			connect := sightOf(w.Installer, func(u *systemd.Unit, executes *string) { u.Ties.RefusesStop, *executes = true, "1.0.0" })
			w.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
				a, err := connect(ctx)
				return looks{a.(seen), &n}, err
			}
			if err := command(t.Context(), w); !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "RefuseManualStop=") {
				t.Errorf("not refused: %v", err)
			}
			if len(w.asked) > 0 || n != 1 {
				t.Errorf("the mirror was asked for %v; the agent was looked at %d times, want once", w.asked, n)
			}
		})
	}
}
