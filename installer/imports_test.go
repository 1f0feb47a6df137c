package installer

import (
	"os/exec"
	"strings"
	"testing"
)

// floors are the rooms of the updater, the lowest first: who is on one imports from
// below, and rooms on one floor do not know one another.
var floors = [][]string{
	{"internal"},
	{"find", "installer/state", "ospackage", "systemd", "versions"},
	{"backup", "health", "installer/host", "report"},
	{"installer/transaction"},
	{"installer"},
	{"cmd/teleport-update"},
}

const module = "teleport-update/"

// floorOf is the floor of a package, and the room on it: -1 for a package that is
// none of the updater's.
func floorOf(path string) (floor int, room string) {
	path, ours := strings.CutPrefix(path, module)
	if !ours {
		return -1, ""
	}
	floor = -1
	for n, rooms := range floors {
		for _, r := range rooms {
			if (path == r || strings.HasPrefix(path, r+"/")) && len(r) > len(room) {
				floor, room = n, r
			}
		}
	}
	return floor, room
}

func TestImportsGoDownstairs(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"cmd/teleport-update").Output()
	if err != nil {
		t.Fatal(err)
	}
	arrows := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from, room := floorOf(words[0])
		if !strings.HasPrefix(words[0], module) {
			continue
		}
		if from < 0 {
			t.Errorf("%s is on no floor", words[0])
		}
		for _, imported := range words[1:] {
			to, other := floorOf(imported)
			if !strings.HasPrefix(imported, module) || room == other {
				continue
			}
			arrows++
			if to >= from {
				t.Errorf("%s imports %s, which is not below it", words[0], imported)
			}
		}
	}
	if arrows < 30 {
		t.Errorf("there are only %d imports: this test shows nothing", arrows)
	}
}
