package main

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A house is a program and its rooms by floors, the lowest first: who is on one
// imports from below, and rooms on one floor do not know one another. Who imports a
// room that is on no floor imports another program's.
type house struct {
	program string
	floors  [][]string
	arrows  int // fewer imports mean that the test sees nothing
}

var houses = []house{
	{"cmd/teleport-update", [][]string{
		{"internal"},
		{"versions/archive", "versions/signature", "health/settings", "find/want"},
		{"versions"},
		{"find", "installer/image", "installer/state", "ospackage", "systemd", "versions/fetch"},
		{"backup", "health", "installer/host", "installer/policy", "report"},
		{"installer/transaction"},
		{"installer/survey"},
		{"installer/decision"},
		{"installer/view"},
		{"installer"},
		{"cmd/teleport-update"},
	}, 30},
	{"cmd/teleport-find", [][]string{
		{"internal"},
		{"versions/archive"},
		{"versions"},
		{"find", "versions/fetch"},
		{"find/rollout", "find/store", "packaging/installscript"},
		{"find/store/postgres"},
		{"find/fleet", "find/simulate"},
		{"find/server/parts", "find/server/adminapi"},
		{"find/server/files", "find/server/inventory", "find/server/channels"},
		{"find/server/answers"},
		{"find/server/driver"},
		{"find/server/admin"},
		{"find/server", "find/server/page"},
		{"cmd/teleport-find"},
	}, 10},
}

const module = "teleport-update/"

// floorOf is the floor of a package of the module, and the room on it: -1 for a
// package on none. A room of a program is that folder alone, and not what is in the
// folders of others in it.
func (h house) floorOf(path string) (floor int, room string) {
	floor = -1
	for n, rooms := range h.floors {
		for _, r := range rooms {
			inside := strings.HasPrefix(path, r+"/") && r != "find" && r != "installer"
			if (path == r || inside) && len(r) > len(room) {
				floor, room = n, r
			}
		}
	}
	return floor, room
}

func TestImportsGoDownstairs(t *testing.T) {
	for _, h := range houses {
		t.Run(h.program, func(t *testing.T) {
			out, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+h.program).Output()
			if err != nil {
				t.Fatal(err)
			}
			arrows := 0
			for line := range strings.Lines(string(out)) {
				words := strings.Fields(line)
				importer, ours := strings.CutPrefix(words[0], module)
				if !ours {
					continue
				}
				from, room := h.floorOf(importer)
				if from < 0 {
					t.Errorf("%s is in no room of this program", importer)
				}
				for _, word := range words[1:] {
					imported, ours := strings.CutPrefix(word, module)
					to, other := h.floorOf(imported)
					if !ours || room == other {
						continue
					}
					arrows++
					if to >= from {
						t.Errorf("%s imports %s, which is not below it", importer, imported)
					}
				}
			}
			if arrows < h.arrows {
				t.Errorf("there are only %d imports: this test shows nothing", arrows)
			}
		})
	}
}

// What is written down on a host is read by each of its programs: it knows nothing
// of how a release is fetched, of systemd or of the cluster, but for the name of a
// release.
func TestStateImportsNothingButHelpersAndTheNameOfARelease(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"installer/state").Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := strings.Fields(string(out))
	allowed := []string{module + "installer/state", module + "health/settings", module + "find/want"} // both compute with values that are written down
	for _, path := range imported {
		if strings.HasPrefix(path, module) && !strings.HasPrefix(path, module+"internal/") && !slices.Contains(allowed, path) {
			t.Errorf("installer/state imports %s", path)
		}
	}
	if !slices.Contains(imported, module+"internal/version") {
		t.Errorf("the list of imports is not one: %q", imported)
	}
}

// TestThereIsOneOfEach: what two rooms did each in its way could disagree. Who needs
// it calls the room that does it.
func TestThereIsOneOfEach(t *testing.T) {
	once := []struct {
		what, text, room string
		but              map[string]string // other files and rooms, and why it is no second one there
	}{
		{"reader of what the kernel says of processes", `"/proc`, "internal/procfs", map[string]string{
			"internal/folder/folder.go":   "a way to what is open already, which nobody reads",
			"ospackage/fence.go":          "the same, for a mount",
			"find/store/postgres/pgtest/": "a server that a test has started",
		}},
		{"reader of files that others may have put there", "os.ReadFile(", "internal/procfs", map[string]string{
			"cmd/teleport-find/":          "a person names the file at the command line, and a pipe will do",
			"internal/golden/":            "files of the checkout, for tests",
			"find/store/postgres/pgtest/": "the same",
			"packaging/":                  "what builds the packages, from the checkout",
			"internal/webclient/roots.go": "the certificates of the system, once they were looked at",
		}},
		{"opener of files that others may have put there", "os.Open(", "", map[string]string{
			"internal/durable/":                "what was written by itself, to sync it",
			"installer/host/copy.go":           "the updater's own program, which runs",
			"internal/procfs/ownpages.go":      "the same",
			"find/store/restore.go":            "a person names the backup at the command line",
			"cmd/teleport-find/adminclient.go": "a person names the token's file, which may be a pipe",
			"ospackage/database.go":            "a lock of the package manager's, of which nothing is read",
			"internal/immutable/":              "a file of a test, to set a flag",
		}},
		{"opener of files that others may have put there", "O_RDONLY", "internal/regular", map[string]string{
			"internal/folder/":                 "a folder",
			"versions/claim.go":                "a folder",
			"internal/procfs/users.go":         "how another process has a file open",
			"installer/state/lock.go":          "a lock, of which nothing is read",
			"installer/transaction/replace.go": "the same, of another updater",
			"find/server/files/releases.go":    "a name below a folder that is open, which no link leads out of",
		}},
		{"question for free space", "unix.Statfs(", "internal/space", nil},
		{"default of a path", `"/var/lib/teleport"`, "internal/layout", nil},
		{"default of a path", `"/opt/`, "internal/layout", nil},
		{"default of a path", `"/usr/lib/systemd/system`, "internal/layout", nil},
		{"default of a path", `"/lib/systemd/system`, "internal/layout", nil},
		{"default of a path", `"/etc/systemd/system`, "internal/layout", nil},
		{"default of a path", `"/usr/local/bin`, "internal/layout", nil},
		{"default of a path", `"/usr/local/lib/systemd/system`, "internal/layout", nil},
		{"way to find an error of a type", "errors.As(", "", nil},
	}
	found := make([]int, len(once))
	excepted := map[string]bool{}
	sources(t, func(_ string, files *token.FileSet, file *ast.File) {
		path := files.Position(file.Pos()).Filename
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n, one := range once {
			if !strings.Contains(string(text), one.text) {
				continue
			}
			except := ""
			for place := range one.but {
				if strings.Contains(path, place) {
					except = place
				}
			}
			switch {
			case one.room != "" && strings.Contains(path, one.room+"/"):
				found[n]++
			case except != "":
				excepted[one.text+except] = true
			default:
				t.Errorf("%s is another %s: %s", path, one.what, one.text)
			}
		}
	})
	for n, one := range once {
		if one.room != "" && found[n] == 0 {
			t.Errorf("%s is not in %s any more", one.text, one.room)
		}
		for place := range one.but {
			if !excepted[one.text+place] {
				t.Errorf("%s is not in %s any more: it needs no exception", one.text, place)
			}
		}
	}
}
