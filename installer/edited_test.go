package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

// Somebody writes a newer version into active_version: a run of the updater moves nothing to it, and status advises no restart,
// whether the version is on disk or not, and whether the links lead to it already or not.
func TestAnEditOfActiveVersionIsNoChangeOfVersion(t *testing.T) {
	runs := version.Release{Version: "1.1.0", Edition: version.Enterprise}
	named := version.Release{Version: "1.2.0", Edition: version.Enterprise}
	for name, tc := range map[string]struct{ missing, moved bool }{
		"the version is on disk":        {},
		"the version is not on disk":    {missing: true},
		"an older updater led links to": {moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newWellHost(t)
			whole(t, h.Installer, runs, named)
			h.config.Spec.URLTemplates = configOf(t, h.Installer).Spec.URLTemplates
			h.config.Spec.NoClusterReport = true // else a repair has systemd read a drop-in
			makeDatabase(t, filepath.Join(h.Machine.Host.Paths.DataDir, "proc", "sqlite.db"))
			tables, err := h.Machine.Schema(t.Context())
			must(t, err)
			h.config.Status.ActiveSchema = tables
			h.config.Spec.ActiveVersion = named.Version
			link := filepath.Join(h.Machine.Host.Paths.LinkDir, "teleport")
			if tree, ok, err := h.Machine.Active(h.config); err != nil || !ok {
				t.Fatal("the version is not on disk", err)
			} else if tc.moved {
				must(t, h.Machine.Host.Repair(tree))
			}
			if tc.missing {
				must(t, os.RemoveAll(filepath.Join(h.Machine.Host.Paths.Versions(), named.Version)))
				must(t, os.RemoveAll(filepath.Join(h.Machine.Host.Paths.Programs(), named.Version)))
			}
			before, err := os.Readlink(link)
			must(t, err)
			for range 2 {
				if s, _ := h.state(t); s != decision.NeedsAttention {
					t.Errorf("status says %s", s)
				}
				r, err := h.Status(t.Context(), StatusOptions{Offline: true})
				must(t, err)
				said := ""
				for _, c := range r.Conditions {
					if strings.Contains(c.Message, "`systemctl restart teleport`") || strings.Contains(c.Message, "puts it back") {
						t.Errorf("status advises: %s", c.Message)
					}
					if c.Type == decision.AgentOtherVersion {
						said = c.Message
					}
				}
				if !strings.Contains(said, "do not restart it") || !strings.Contains(said, "`teleport-update pin 1.1.0`") {
					t.Errorf("status says of the agent: %q", said)
				}
				h.Machine.Scheduled = true
				whole, err := h.repair(t.Context(), h.config, false)
				must(t, err)
				if !whole {
					must(t, h.fetchAgain(t.Context(), wanted{Release: named, Config: h.config, Spec: h.config.Spec}))
				}
				if now, err := os.Readlink(link); err != nil || now != before {
					t.Errorf("the link led to %s, and leads to %s, %v", before, now, err)
				}
			}
			h.Machine.Scheduled = false // who types the command is told by its end
			if _, err := h.repair(t.Context(), h.config, true); !tc.moved && !failure.Is[*failure.RefusedError](err) {
				t.Errorf("a person's command ends with %v", err)
			}
		})
	}
}
