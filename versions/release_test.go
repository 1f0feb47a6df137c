package versions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/tarball"
	"teleport-update/internal/version"
	"teleport-update/versions/archive"
)

// soundTarball is a release with everything that a real one has, and more.
func soundTarball(version string, more ...tarball.Item) []byte {
	return tarball.Gzip(tarball.Of(append(tarball.Sound(version), more...)...))
}

func digestHex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func testStore(t *testing.T) *Store {
	t.Helper()
	return NewStore(filepath.Join(t.TempDir(), "versions"))
}

func oss(v string) Release { return Release{Version: v, Edition: version.OSS} }

// build puts the files of a tarball into the store, but does not publish them.
func build(t *testing.T, s *Store, r Release, tarball []byte) *Build {
	t.Helper()
	must(t, os.MkdirAll(s.PartialDir(), 0o755))
	b, err := s.Begin(r)
	must(t, err)
	must(t, b.Fill(1<<20, func(to archive.Sink) error {
		_, err := archive.Unpack(bytes.NewReader(tarball), archive.DefaultLimits(), to, func() {})
		return err
	}))
	return b
}

// publish puts a sound release into the store, as a fetch does.
func publish(t *testing.T, s *Store, r Release) Tree {
	t.Helper()
	data := soundTarball(r.Version)
	tree, err := build(t, s, r, data).Publish(Release{}, digestHex(data))
	must(t, err)
	return tree
}

func wantWhole(t *testing.T, tree Tree, tarball []byte) {
	t.Helper()
	if tree.SHA256 != digestHex(tarball) {
		t.Errorf("the tree says %s; want %s", tree.SHA256, digestHex(tarball))
	}
	if err := tree.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// contents returns every file below dir as "path mode content", and every
// other entry as "path mode".
func contents(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%s %v", rel, info.Mode())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(data)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantNothingLeft fails unless the store holds nothing but an empty partial/.
func wantNothingLeft(t *testing.T, s *Store) {
	t.Helper()
	if got := contents(t, s.Dir); len(got) != 1 || !strings.HasPrefix(got[0], "partial d") {
		t.Errorf("left behind: %.300q", got)
	}
}
