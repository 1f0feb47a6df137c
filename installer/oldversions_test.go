package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
)

// Where it cannot be told what a process executes, no old version goes; a person hears of it
// from `status` and from `verify`, and not only from the log of a run.
func TestAPersonIsToldWhyOldVersionsStay(t *testing.T) {
	for name, known := range map[string]bool{"of a process that can be seen": true, "of one that cannot": false} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			writeFile(t, i.Machine.Host.Paths.Config(), wholeConfig)
			writeFile(t, filepath.Join(i.Machine.Host.Store.Dir, "14.0.0", "sha256"), strings.Repeat("a", 64)+"\n")
			proc := t.TempDir()
			i.Machine.Host.Store.ProcDir = proc
			exe := filepath.Join(proc, "77", "exe")
			if err := os.Mkdir(filepath.Dir(exe), 0o755); err != nil {
				t.Fatal(err)
			}
			if known {
				if err := os.Symlink("/bin/sh", exe); err != nil {
					t.Fatal(err)
				}
			} else {
				writeFile(t, exe, "")
			}
			r, err := i.Status(t.Context(), StatusOptions{})
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			for _, c := range r.Conditions {
				if c.Type == decision.VersionsLeft {
					told = c.Message
				}
			}
			findings, err := i.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			verified := ""
			for _, f := range findings {
				if f.Subject == "old versions" {
					verified = f.Detail
				}
			}
			for what, text := range map[string]string{"status": told, "verify": verified} {
				if says := strings.Contains(text, "old versions stay on disk") && strings.Contains(text, exe); says == known {
					t.Errorf("%s says %q", what, text)
				}
			}
		})
	}
}
