package installer

import (
	"io"
	"testing"

	"teleport-update/installer/transaction"
	"teleport-update/integration/tarball"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// adopts puts into the store what a package brought.
func (s *shelf) adopts(v string) versions.Tree {
	s.Helper()
	a := versions.Adoption{Origin: "deb teleport " + v, Edition: version.OSS, Complete: func(string, versions.Release) error { return nil }}
	for name, text := range map[string]string{"bin/teleport": tarball.Agent(v), "etc/systemd/teleport.service": "[Service]\n"} {
		a.Files = append(a.Files, versions.AdoptedFile{Name: name, Size: int64(len(text)),
			Write: func(w io.Writer) error { _, err := io.WriteString(w, text); return err }})
	}
	tree, err := s.Machine.Host.Store.Adopt(s.Context(), a)
	must(s.T, err)
	return tree
}

// Rollback takes what a package brought as it is, and nothing else does.
func TestWhatAPackageBroughtIsForRollbackOnly(t *testing.T) {
	s := newShelf(t)
	tree := s.adopts("0.9.0")
	if _, _, err := s.obtains("0.9.0"); err == nil {
		t.Error("it was taken for the release, which no mirror has")
	}
	c := s.c
	c.Status.PreviousVersion, c.Status.PreviousEdition = "0.9.0", version.OSS
	req, _, err := s.rollbackRequest(c, RollbackOptions{})
	if err != nil || req.To != transaction.TreeOf(tree) {
		t.Errorf("a rollback goes to %+v, %v", req.To, err)
	}
	if role := s.roleOf(c, tree); role != "whole, previous, from the package (deb teleport 0.9.0), for rollback only" {
		t.Errorf("verify says %q", role)
	}

	s.publish("0.9.0")
	release, done, err := s.obtains("0.9.0")
	must(t, err)
	done()
	if release.Origin != "" || release.SHA256 == "" || release.Dir != tree.Dir {
		t.Errorf("the release is %+v", release)
	}
}
