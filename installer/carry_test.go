package installer

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
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

// A drop-in of somebody's that sorts before ours overrules the unit, and ours would overrule that: enable refuses before it writes one.
func TestADropInThatOursWouldOverruleRefusesTheFirstEnable(t *testing.T) {
	const unit = "[Unit]\n[Service]\nExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml\n"
	for file, refused := range map[string]bool{"00-ansible.conf": true, "50-ansible.conf": false} {
		i := testInstaller(t)
		i.Machine.Connect = sightOf(i, func(u *systemd.Unit, _ *string) { u.Name = layout.AgentUnit })
		paths := i.Machine.Host.Paths
		tree := versions.Tree{Dir: filepath.Join(paths.Versions(), "1.1.0"), Release: version.Release{Version: "1.1.0", Edition: version.OSS}}
		writeFile(t, tree.UnitFile(), unit)
		writeFile(t, paths.Unit(), unit+"EnvironmentFile=/etc/old\n")
		dropIn := filepath.Join(paths.Unit()+".d", file)
		writeFile(t, dropIn, "[Service]\nEnvironmentFile=\nEnvironmentFile=/etc/new\n")
		carried, err := i.carry(t.Context(), tree)
		says := dropIn + " sets EnvironmentFile=, and so does " + paths.Unit()
		if refused && (!failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: it ends with %v; want %q", file, err, says)
		}
		if !refused && err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if there := host.Exists(i.Machine.Host.OwnUnits().CarriedFile()); there == refused || carried == refused {
			t.Errorf("%s: carried: %t, the file is there: %t", file, carried, there)
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
