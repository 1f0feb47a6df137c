package installer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/versions"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tracesOfAnEnable show that one was proven, though updates.yaml, which is gone,
// does not say so. There is no version in the store: what runs must not matter.
var tracesOfAnEnable = map[string]func(*testing.T, *Installer){
	"a link leads into the store": func(t *testing.T, i *Installer) {
		must(t, os.MkdirAll(i.Paths.LinkDir, 0o755))
		must(t, os.Symlink(filepath.Join(i.Paths.Versions(), "1.0.0/bin/teleport"), filepath.Join(i.Paths.LinkDir, "teleport")))
	},
	"what was here before is known": func(t *testing.T, i *Installer) { must(t, i.writeBefore(before{})) },
	"what was here before cannot be read": func(t *testing.T, i *Installer) {
		writeFile(t, i.beforeFile(), "{")
	},
}

// saved is a host with the copy of a file that a link took the place of.
func saved(t *testing.T) (i *Installer, copied string) {
	t.Helper()
	i = testInstaller(t)
	copied = filepath.Join(i.Paths.Original(), "teleport-0123456789abcdef")
	writeFile(t, copied, "mine")
	return i, copied
}

func TestUninstallDoesNotTakeALostConfigurationForNone(t *testing.T) {
	for name, trace := range tracesOfAnEnable {
		t.Run(name, func(t *testing.T) {
			i, copied := saved(t)
			trace(t, i)
			if r, err := i.Status(t.Context()); err != nil || r.State != StateNeedsAttention || !strings.Contains(r.Explanation, "names no active version") ||
				!strings.Contains(r.Explanation, "nothing updates it before") {
				t.Errorf("status: %s, %s, %v", r.State, r.Explanation, err)
			}
			for _, keepAgent := range []bool{false, true} {
				var refused *RefusedError
				if err := i.uninstallLocked(t.Context(), Config{}, nil, keepAgent); !errors.As(err, &refused) {
					t.Errorf("keep agent %v: %v; want a refusal", keepAgent, err)
				}
				if !exists(copied) || exists(i.Paths.Config()) || exists(i.Paths.Journal()) {
					t.Errorf("keep agent %v: something was changed", keepAgent)
				}
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		i, _ := saved(t)
		if r, err := i.Status(t.Context()); err != nil || r.State != StateDisabled {
			t.Errorf("status: %s, %s, %v", r.State, r.Explanation, err)
		}
		must(t, i.uninstallLocked(t.Context(), Config{}, nil, false))
		if exists(i.Paths.Versions()) {
			t.Error("the store is still there")
		}
	})
}

func TestAnUninstallGoesOnAfterTheConfigurationWasLost(t *testing.T) {
	i := testInstaller(t)
	tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "1.0.0")}
	writeFile(t, tree.Binary("teleport"), "program")
	link := filepath.Join(i.Paths.LinkDir, "teleport")
	writeFile(t, link, "mine")
	changes, err := versions.PlanLinks(i.Paths.LinkDir, tree, nil)
	must(t, err)
	must(t, versions.ApplyLinks(changes, i.Paths.Original()))
	must(t, i.writeBefore(before{Links: changes, Unit: unitBefore{Path: i.Paths.Unit()}}))
	j := &journal{Schema: journalSchema, Phase: uninstalling}
	must(t, j.save(i.Paths.Journal()))
	must(t, i.uninstallAgain(t.Context(), j, nil))
	if data, err := os.ReadFile(link); err != nil || string(data) != "mine" || exists(i.Paths.Versions()) {
		t.Errorf("%s is %q, %v; want what was there before, and nothing of ours", link, data, err)
	}
}
