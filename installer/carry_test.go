package installer

import (
	"context"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// Whoever waits for a first enable may be interrupted, or lose the transaction that goes on
// without them: what was carried goes only with a version that is out of the way.
func TestWhatIsCarriedGoesOnlyWithAFailedEnable(t *testing.T) {
	for name, tc := range map[string]struct {
		journal bool
		active  string
		stays   bool
	}{
		"the enable failed":             {},
		"the transaction is open still": {journal: true, stays: true},
		"the version is active":         {active: "1.1.0", stays: true},
	} {
		i := testInstaller(t)
		reloads := 0
		i.Machine.Connect = func(context.Context) (transaction.Agent, error) { return reloaded{n: &reloads}, nil }
		c := state.EmptyConfig()
		if c.Spec.ActiveVersion = tc.active; tc.active != "" {
			c.Status.ActiveEdition = version.OSS
		}
		writeFile(t, i.Machine.Host.Paths.Config(), "")
		must(t, c.Save(i.Machine.Host.Paths.Config()))
		if tc.journal {
			writeFile(t, i.Machine.Host.Paths.Journal(), "{}")
		}
		must(t, i.Machine.Host.OwnUnits().WriteCarried(systemd.Carried{DropIn: []byte("[Service]\nNice=5\n")}, "/lib/systemd/system/teleport.service"))
		i.uncarry(t.Context())
		if stays := host.Exists(i.Machine.Host.OwnUnits().CarriedFile()); stays != tc.stays || stays == (reloads > 0) {
			t.Errorf("%s: the drop-in is there: %v; systemd was told %d times", name, stays, reloads)
		}
	}
}

// reloaded counts how often systemd was told to read its files again.
type reloaded struct {
	transaction.Agent
	n *int
}

func (r reloaded) DaemonReload(context.Context) error {
	*r.n++
	return nil
}

func (r reloaded) Close() {}
