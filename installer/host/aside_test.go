package host

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/versions"
)

// Whoever writes the agent's unit again and again finds it kept, once; a version's own is
// no loss.
func TestAUnitThatSomebodyWroteIsKeptOnce(t *testing.T) {
	h := testHost(t)
	tree := versions.Tree{Dir: filepath.Join(h.Paths.Versions(), "2.0.0")}
	writeFile(t, tree.UnitFile(), "[Unit]\n")
	for _, content := range []string{"[Unit]\n# another\n", "[Unit]\n", "[Unit]\n# another\n"} {
		writeFile(t, h.Paths.Unit(), content)
		kept, err := h.KeepForeignUnit()
		if err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(kept)
		if foreign := content != "[Unit]\n"; foreign != (kept != "") || foreign && string(got) != content {
			t.Errorf("%q is kept as %q, which holds %q", content, kept, got)
		}
		if now, err := os.ReadFile(h.Paths.Unit()); err != nil || string(now) != content {
			t.Errorf("the unit holds %q, %v", now, err)
		}
	}
	if all, _ := filepath.Glob(h.Paths.Unit() + ".aside-*"); len(all) != 1 {
		t.Errorf("there is %v", all)
	}
}
