package store

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Imports between the packages of the find server run one way.
func TestImportsRunOneWay(t *testing.T) {
	for pkg, may := range map[string][]string{
		"find":         nil,
		"find/store":   nil,
		"find/rollout": nil,
		"find/fleet":   {"find/rollout"},
		"find/server":  {"find", "find/fleet", "find/rollout", "find/store"},
	} {
		out, err := exec.Command("go", "list", "-deps", "teleport-update/"+pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		for path := range strings.FieldsSeq(string(out)) {
			name, ours := strings.CutPrefix(path, "teleport-update/")
			if ours && name != pkg && !strings.HasPrefix(name, "internal/") && !slices.Contains(may, name) {
				t.Errorf("%s imports %s", pkg, name)
			}
		}
	}
}
