package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A damaged active version is made whole before it is left; without a mirror that has it the change is
// refused, unless a person insists.
func TestADamagedActiveVersionIsMadeWholeBeforeItIsLeft(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"a program is gone": func(dir string) error { return os.Remove(filepath.Join(dir, "bin", "tsh")) },
		"a program is another": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "bin", "tsh"), []byte("another"), 0o755)
		},
		"the manifest is broken": func(dir string) error { return os.WriteFile(filepath.Join(dir, "manifest"), []byte("broken\n"), 0o644) },
		"the digest is gone":     func(dir string) error { return os.Remove(filepath.Join(dir, "sha256")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			to := wanted{Release: oss("1.1.0"), Config: s.c, Spec: s.c.Spec, Retried: true}
			must(t, makeWhole(t.Context(), s.Installer, to, false, "insist"))
			must(t, os.Remove(filepath.Join(s.dir, "1.0.0.tar.gz")))
			must(t, damage(filepath.Join(s.Machine.Host.Paths.Versions(), "1.0.0")))
			err := makeWhole(t.Context(), s.Installer, to, false, "insist")
			if err == nil || !strings.Contains(err.Error(), "`insist` makes it all the same") {
				t.Errorf("without a mirror: %v; want a refusal that names the command", err)
			}
			must(t, makeWhole(t.Context(), s.Installer, to, true, "insist"))
			if _, damaged, _ := damageOf(t.Context(), s.Machine, to); damaged == nil {
				t.Fatal("it is whole, and nobody had it")
			}
			s.publish("1.0.0")
			must(t, makeWhole(t.Context(), s.Installer, to, false, "insist"))
			if _, damaged, err := damageOf(t.Context(), s.Machine, to); damaged != nil || err != nil {
				t.Errorf("it is not whole: %v, %v", damaged, err)
			}
		})
	}
}
