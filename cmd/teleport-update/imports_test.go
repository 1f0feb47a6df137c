package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a host runs has nothing in it of what a server needs: its store, its
// rollouts, its listeners.
func TestTheUpdaterImportsNothingOfTheFindServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := strings.Fields(string(out))
	for _, path := range imported {
		if strings.HasPrefix(path, "teleport-update/find/") {
			t.Errorf("the updater imports %s", path)
		}
	}
	if !slices.Contains(imported, "teleport-update/find") {
		t.Errorf("the list of imports is not one: %q", imported)
	}
}
