package transaction

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// tracesOfAnEnable show that one was proven, though updates.yaml, which is gone,
// does not say so. There is no version in the store: what runs must not matter.
var tracesOfAnEnable = map[string]func(*testing.T, *Machine){
	"a link leads into the store": func(t *testing.T, i *Machine) {
		must(t, os.MkdirAll(i.Host.Paths.LinkDir, 0o755))
		must(t, os.Symlink(filepath.Join(i.Host.Paths.Versions(), "1.0.0/bin/teleport"), filepath.Join(i.Host.Paths.LinkDir, "teleport")))
	},
	"what was here before is known": func(t *testing.T, i *Machine) { must(t, i.Host.WriteOriginals(host.Originals{})) },
	"what was here before cannot be read": func(t *testing.T, i *Machine) {
		writeFile(t, filepath.Join(i.Host.Paths.Original(), "before.json"), "{")
	},
}

// saved is a host with the copy of a file that a link took the place of.
func saved(t *testing.T) (i *Machine, copied string) {
	t.Helper()
	i = testMachine(t)
	copied = filepath.Join(i.Host.Paths.Original(), "teleport-0123456789abcdef")
	writeFile(t, copied, "mine")
	return i, copied
}

func TestUninstallDoesNotTakeALostConfigurationForNone(t *testing.T) {
	for name, trace := range tracesOfAnEnable {
		t.Run(name, func(t *testing.T) {
			i, copied := saved(t)
			trace(t, i)
			for _, keepAgent := range []bool{false, true} {
				err := i.uninstallLocked(t.Context(), state.EmptyConfig(), absent{}, state.Uninstall{KeepAgent: keepAgent})
				if _, refused := errors.AsType[*failure.RefusedError](err); !refused {
					t.Errorf("keep agent %v: %v; want a refusal", keepAgent, err)
				}
				if !host.Exists(copied) || host.Exists(i.Host.Paths.Config()) || host.Exists(i.Host.Paths.Journal()) {
					t.Errorf("keep agent %v: something was changed", keepAgent)
				}
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		i, _ := saved(t)
		c := state.EmptyConfig()
		c.Spec.TextfileDir = t.TempDir()
		must(t, state.WriteTextfile(c.Spec.TextfileDir, nil))
		must(t, i.uninstallLocked(t.Context(), c, absent{}, state.Uninstall{}))
		if host.Exists(i.Host.Paths.Versions()) {
			t.Error("the store is still there")
		}
		if left, _ := os.ReadDir(c.Spec.TextfileDir); len(left) > 0 {
			t.Errorf("the metrics are still there: %v", left)
		}
	})
}

func TestAnUninstallGoesOnAfterTheConfigurationWasLost(t *testing.T) {
	i := testMachine(t)
	tree := versions.Tree{Dir: filepath.Join(i.Host.Paths.Versions(), "1.0.0")}
	writeFile(t, tree.Binary("teleport"), "program")
	link := filepath.Join(i.Host.Paths.LinkDir, "teleport")
	writeFile(t, link, "mine")
	changes, err := host.PlanLinks(i.Host.Paths.LinkDir, tree, nil)
	must(t, err)
	must(t, host.ApplyLinks(changes, i.Host.Paths.Original()))
	must(t, i.Host.WriteOriginals(host.Originals{Links: changes, Unit: state.UnitFile{Path: i.Host.Paths.Unit()}}))
	must(t, i.open(t, uninstalling, nil).uninstallAgain(t.Context()))
	if data, err := os.ReadFile(link); err != nil || string(data) != "mine" || host.Exists(i.Host.Paths.Versions()) {
		t.Errorf("%s is %q, %v; want what was there before, and nothing of ours", link, data, err)
	}
}
