//go:build hosts

package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// systemd calls each of them masked.
func TestHostAnEmptyFileIsAMaskOnlyWherePeopleMaskUnits(t *testing.T) {
	t.Parallel()
	conn := dialHost(t)
	const name = "emptied.service"
	for dir, want := range map[string]string{"/usr/local/lib/systemd/system": "not-found", "/etc/systemd/system": "masked", "/run/systemd/system": "masked"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		writeHostFile(t, path, "")
		reload := func() {
			if out, err := exec.Command("systemctl", "daemon-reload").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		reload()
		u, err := conn.Unit(t.Context(), name)
		if err != nil || u.LoadState != want {
			t.Errorf("%s: %q, %v; want %q", path, u.LoadState, err, want)
		}
		if masks := MaskOf(name) == path; masks != (want == "masked") {
			t.Errorf("%s: MaskOf says %q", path, MaskOf(name))
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		reload()
	}
}
