package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/internal/layout"
)

// Another updater may come to a host that is managed: a role enables Teleport's own, or a package brings one. Each change of version is
// refused then, so the host is not idle, and nobody waits for a run of the timer.
func TestAnotherUpdaterThatCameLaterIsAFault(t *testing.T) {
	const config, timer = layout.TeleportsUpdaterDir + "/update.yaml", layout.ConfigDir + "/teleport-update.timer"
	const theirs = "[Unit]\nDescription=Teleport auto-update timer unit\n"
	program := filepath.Join(layout.LinkDir, "teleport-update")
	for name, tc := range map[string]struct {
		files map[string]string
		links map[string]string // below the versions: to a program of ours
		timer bool              // theirs is in the place of ours
		says  []string
		not   string
	}{
		"Teleport's own": {files: map[string]string{config: "version: v1\n", timer: theirs},
			says: []string{"(ROOT" + config + ")", "`teleport-updater enable --replace-updater`", "`" + program + " uninstall`"}},
		"Teleport's own, whose link is ours": {files: map[string]string{config: "version: v1\n", timer: theirs,
			layout.TeleportsUpdaterDir + "/versions/18.1.0/bin/teleport-update": ""},
			links: map[string]string{program: "1.1.0/bin/teleport-update"}, not: program + " uninstall",
			says: []string{"`teleport-update enable --replace-updater`",
				"`ROOT" + layout.TeleportsUpdaterDir + "/versions/18.1.0/bin/teleport-update uninstall`"}},
		"what is left of Teleport's own": {files: map[string]string{config: "version: v1\n"},
			links: map[string]string{program: "1.1.0/bin/teleport-update"}, not: "uninstall", says: []string{"remove its files: ROOT" + config}},
		"a package's": {files: map[string]string{layout.OldPackageUnitDir + "/teleport-upgrade.timer": theirs},
			says: []string{"/teleport-upgrade.timer)", "remove the package teleport-ent-updater"}},
		"a service of the name": {files: map[string]string{layout.ConfigDir + "/teleport-update.service": theirs},
			says: []string{layout.ConfigDir + "/teleport-update.service)", "remove it first"}},
		"a timer alone": {files: map[string]string{layout.TeleportsUpdaterDir + "/update.lock": ""}, timer: true,
			says: []string{"/teleport-update.timer is another updater's", "remove the file, then `teleport-update update`"}},
		"a timer that somebody masked": {links: map[string]string{layout.ConfigDir + "/teleport-upgrade.timer": os.DevNull},
			says: []string{"teleport-upgrade.timer is masked: `systemctl unmask teleport-upgrade.timer`"}},
	} {
		h := newWellHost(t)
		root := t.TempDir()
		h.Machine.Host.OthersRoot = root
		if is, types := h.state(t); is != decision.Idle {
			t.Fatalf("%s: before, the host is %s: %v", name, is, types)
		}
		for path, content := range tc.files {
			writeFile(t, filepath.Join(root, path), content)
		}
		for path, to := range tc.links {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
			if to != os.DevNull {
				to = filepath.Join(h.Machine.Host.Paths.Versions(), to)
			}
			must(t, os.Symlink(to, filepath.Join(root, path)))
		}
		if tc.timer {
			writeFile(t, filepath.Join(h.Machine.Host.Paths.UnitDir, "teleport-update.timer"), theirs)
		}
		h.answer.Release.Version = "1.2.0" // the cluster wants another version
		is, types := h.state(t)
		r, err := h.Status(t.Context(), StatusOptions{Offline: true})
		must(t, err)
		said := map[decision.Type]string{}
		for _, c := range r.Conditions {
			said[c.Type] = strings.ReplaceAll(c.Message, root, "ROOT")
		}
		if is != decision.NeedsAttention || said[decision.OtherUpdater] == "" {
			t.Errorf("%s: the host is %s: %v", name, is, types)
		}
		for _, words := range tc.says {
			if !strings.Contains(said[decision.OtherUpdater], words) {
				t.Errorf("%s: status says %q; want %q", name, said[decision.OtherUpdater], words)
			}
		}
		if tc.not != "" && strings.Contains(said[decision.OtherUpdater], tc.not) {
			t.Errorf("%s: status says %q", name, said[decision.OtherUpdater])
		}
		if waits := said[decision.UpdateWaits]; !strings.Contains(waits, "no run of the timer switches to it") {
			t.Errorf("%s: a run is waited for: %q", name, waits)
		}
	}
}
