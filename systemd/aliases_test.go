package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Host tests hold the same to systemd, for units without a dash in their names.
func TestDropInsAddToAUnitByEachOfItsNames(t *testing.T) {
	etc, lib := t.TempDir(), t.TempDir()
	writeFile(t, lib+"/teleport-agent.service", "[Service]\nExecStart=/usr/local/bin/teleport start\n")
	links := map[string]string{etc + "/gw.service": lib + "/teleport-agent.service", lib + "/old.service": "teleport-agent.service",
		etc + "/gw.socket": lib + "/teleport-agent.service", etc + "/other.service": lib + "/another.service"}
	for path, target := range links {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	adds := []string{etc + "/gw.service.d/a.conf", lib + "/old.service.d/b.conf", etc + "/teleport-.service.d/c.conf",
		lib + "/teleport-agent.service.d/d.conf", lib + "/service.d/e.conf", etc + "/teleport-agent.service.d/same.conf"}
	not := []string{etc + "/other.service.d/f.conf", etc + "/gw.socket.d/g.conf", etc + "/teleport.service.d/h.conf",
		etc + "/gw.service.d/same.conf", lib + "/service.d/same.conf"}
	for _, file := range append(slices.Clone(adds), not...) {
		writeFile(t, file, "")
	}
	got, err := dropIns("teleport-agent.service", []string{etc, lib})
	if err != nil || !slices.Equal(got, adds) {
		t.Errorf("%q, %v; want %q", got, err, adds)
	}
}

// Of a folder that is not there, and of a link that leads in a circle, nothing is known.
func TestAliasesOfFoldersThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("circle.service", filepath.Join(dir, "circle.service")); err != nil {
		t.Fatal(err)
	}
	if got := aliasesOf("teleport.service", []string{dir + "/gone", dir}); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
