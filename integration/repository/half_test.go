//go:build hosts

package repository

import (
	"path/filepath"
	"testing"

	"teleport-update/integration/scenes"
)

// Whatever a publication that was cut off has left, apt and dnf install from it.
// TestAPublicationCutOffAnywhereIsWhole looks at more, and without them.
func TestHalfARepositoryBreaksNoClient(t *testing.T) {
	t.Parallel()
	p := newPublication(t)
	s := newSite(t, scenes.DnfHost)
	s.configureApt(s.shelf.read("teleport-update.asc"))
	s.configureDnf(s.shelf.read("teleport-update.asc"))
	seen := make(map[string]bool)
	isNew := func(dir string) bool {
		state := visible(t, dir)
		defer func() { seen[state] = true }()
		return !seen[state]
	}
	apt, dnf := 0, 0
	try := func(dir string) {
		s.serves(dir)
		if isNew(filepath.Join(dir, "apt")) {
			apt++
			s.Must("apt-get", "clean")
			s.upToDate()
			s.says(s.apt("install", "--download-only", "teleport-update"), 0, "Download complete")
		}
		if isNew(filepath.Join(dir, "yum")) {
			dnf++
			s.Must("dnf", "clean", "packages")
			s.says(s.dnf("--refresh", "install", "--downloadonly", "teleport-update"), 0, "Complete!")
		}
	}
	for _, c := range p.calls() {
		if !shows(c) {
			continue
		}
		dir := filepath.Join(t.TempDir(), "repository")
		at := p.cutAt(dir, c.Index)
		try(dir)
		if t.Failed() {
			t.Fatalf("cut off before %s", at)
		}
	}
	try(p.after)
	t.Logf("apt read %d different states, dnf %d", apt, dnf)
	if apt < 10 || dnf < 5 {
		t.Errorf("apt read %d different states, dnf %d: too few to have seen all of it", apt, dnf)
	}
}
