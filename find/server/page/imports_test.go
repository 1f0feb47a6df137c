package page

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The page is a room of its own: the command alone knows of it, and it knows of the server what the command line does.
func TestOnlyTheCommandKnowsOfThePage(t *testing.T) {
	const module, self = "teleport-update/", "teleport-update/find/server/page"
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var importers, ours []string
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if slices.Contains(words[1:], self) {
			importers = append(importers, words[0])
		}
		if words[0] != self {
			continue
		}
		for _, one := range words[1:] {
			if room, is := strings.CutPrefix(one, module); is {
				ours = append(ours, room)
			}
		}
	}
	if !slices.Equal(importers, []string{module + "cmd/teleport-find"}) {
		t.Errorf("it is imported by %q", importers)
	}
	if want := []string{"find/rollout", "find/server/adminapi", "find/server/parts", "internal/console"}; !slices.Equal(ours, want) {
		t.Errorf("it imports %q; want %q", ours, want)
	}
}
