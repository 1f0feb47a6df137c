package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/layout"
)

// Replacement is the scene in which a host of Teleport's own updater is taken over from it.
// It is none of Scenes: that updater is looked for in its own places.
func Replacement() Scene {
	return Scene{
		Name: "replacement", Prepare: managed, Wanted: V1, To: V1, Usual: true,
		Args: func(w *World) []string { return append(w.Enable(), "--replace-updater") },
	}
}

// managed is a host that Teleport's own updater keeps on a version.
func managed(_ context.Context, w *World) error {
	const v = "0.9.0"
	bin := filepath.Join(layout.TeleportsUpdaterDir, "versions", v, "bin")
	for path, content := range map[string]string{
		bin + "/teleport":        "#!/bin/sh\necho 'Teleport v" + v + " git:'\n",
		bin + "/tsh":             "#!/bin/sh\necho 'an old tsh'\n",
		bin + "/teleport-update": "#!/bin/sh\nexit 3\n",
		layout.TeleportsUpdaterDir + "/update.yaml": "version: v1\nkind: update_config\nspec:\n  enabled: true\n  path: " + layout.LinkDir +
			"\nstatus:\n  active:\n    version: " + v + "\n",
		layout.ConfigDir + "/teleport-update.service":                 "[Service]\nType=oneshot\nExecStart=" + layout.LinkDir + "/teleport-update update\n",
		layout.ConfigDir + "/teleport-update.timer":                   "[Timer]\nOnUnitActiveSec=5m\n[Install]\nWantedBy=timers.target\n",
		layout.ConfigDir + "/teleport.service.d/teleport-update.conf": "[Service]\nEnvironment=TELEPORT_UPDATE_INSTALL_DIR=" + layout.TeleportsDir + "\n",
	} {
		path = w.below(path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
			return err
		}
	}
	for _, name := range []string{"teleport", "tsh", "teleport-update"} {
		if err := os.Symlink(filepath.Join(bin, name), filepath.Join(w.Links, name)); err != nil {
			return err
		}
	}
	wanted := w.below(layout.ConfigDir + "/timers.target.wants/teleport-update.timer")
	if err := errors.Join(os.Mkdir(filepath.Dir(wanted), 0o755), os.Symlink(layout.ConfigDir+"/teleport-update.timer", wanted)); err != nil {
		return err
	}
	return w.Migrate(v, 1)
}

// withoutOthers are the links of a State but for that to the updater which is replaced.
func withoutOthers(links string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(links, ", "), func(link string) bool {
		return strings.HasPrefix(link, "teleport-update ") && strings.Contains(link, " -> "+layout.TeleportsUpdaterDir+"/")
	}), ", ")
}

// root is the folder in World.Dir that has the host's folders as its root would.
const root = "host"

// below is where a path of an ordinary host is in the World.
func (w *World) below(path string) string { return filepath.Join(w.Dir, root, path) }

// tops are the folders of the machine that those of the World hide. On an ordinary host they
// have all that the updater changes, and nothing that a shell needs.
var tops = []string{"/opt", "/usr/local", "/var/lib", "/etc/systemd"}

// put has the updater see the host's folders in the usual places, or where they are.
func (w *World) put(usual bool) error {
	if w.usual = usual; !usual {
		return nil
	}
	if w.prefix == nil {
		return errors.New("only root can put a host's folders in their usual places")
	}
	if w.Data != w.below(layout.DataDir) || w.Links != w.below(layout.LinkDir) || w.Units != w.below(layout.UnitDir) {
		return fmt.Errorf("the host's folders are not all below %s", w.below("/"))
	}
	// The agent's data are in the usual place, too.
	return os.WriteFile(w.AgentConfig+".usual", []byte("version: v3\n"), 0o600)
}

// inUsualPlaces begins a command of a World of usual places, which is in a mount
// namespace of its own.
func (w *World) inUsualPlaces() []string {
	argv := []string{"/bin/sh", "-c", `while [ "$1" != -- ]; do mount -n --bind "$0$1" "$1" && shift || exit; done; shift && exec "$@"`, w.below("")}
	argv = append(append(argv, tops...), "--")
	return append(argv, w.Program, "--agent-config", w.AgentConfig+".usual")
}
