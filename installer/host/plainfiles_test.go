package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/versions"
)

// An uninstall that keeps the agent removes the programs, and may be cut off after that.
func TestPlainFilesAreLeftAgainAfterTheProgramsWent(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	tree := versions.Tree{Dir: dir + "/versions/1.0.0", Programs: dir + "/opt/1.0.0"}
	for _, name := range []string{"teleport", "tsh"} {
		writeFile(t, tree.Binary(name), name)
		must(t, os.Symlink(tree.Binary(name), filepath.Join(links, name)))
	}
	// While a link still leads there, its program would be lost.
	must(t, os.Rename(tree.Programs, dir+"/away"))
	if err := LeavePlainFiles(links, tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without programs: %v", err)
	}
	must(t, os.Rename(dir+"/away", tree.Programs))

	must(t, LeavePlainFiles(links, tree))
	must(t, os.RemoveAll(dir+"/opt"))
	must(t, LeavePlainFiles(links, tree))
	for _, name := range []string{"teleport", "tsh"} {
		if data, err := os.ReadFile(filepath.Join(links, name)); err != nil || string(data) != name {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
}
