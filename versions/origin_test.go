package versions

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/tarball"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
)

const testOrigin = "deb teleport 15.1.1"

func adoptedFile(name, text string) AdoptedFile {
	return AdoptedFile{Name: name, Size: int64(len(text)), Write: func(w io.Writer) error { _, err := io.WriteString(w, text); return err }}
}

// adoption is of an agent with this script, and with a backup of its database.
func adoption(script string) Adoption {
	return Adoption{
		Origin: testOrigin, Edition: version.OSS,
		Files: []AdoptedFile{adoptedFile("bin/teleport", script), adoptedFile("bin/tsh", "tsh"), adoptedFile("etc/systemd/teleport.service", "[Service]\n")},
		Complete: func(dir string, r Release) error {
			if r != oss("15.1.1") {
				return errors.New("it is " + r.String())
			}
			return errors.Join(os.Mkdir(dir+"/backup", 0o700), os.WriteFile(dir+"/backup/sqlite.db", []byte("rows"), 0o600))
		},
	}
}

func TestAnAdoptedAgentIsAVersionUntilItsReleaseIsWanted(t *testing.T) {
	t.Run("in one place", func(t *testing.T) { adoptAndPublish(t, "") })
	t.Run("with its programs apart", func(t *testing.T) { adoptAndPublish(t, filepath.Join(t.TempDir(), "programs")) })
}

func adoptAndPublish(t *testing.T, programs string) {
	s := testStore(t)
	if programs != "" {
		s.Programs = programs
	}
	tree, err := s.Adopt(t.Context(), adoption(tarball.Agent("15.1.1")))
	if err != nil {
		t.Fatal(err)
	}
	found, ok, err := s.Lookup(oss("15.1.1"))
	if err != nil || !ok || found != tree || found.Origin != testOrigin || found.SHA256 != "" {
		t.Errorf("it is found as %+v, %v, %v; want %+v", found, ok, err, tree)
	}
	if err := errors.Join(found.Verify(t.Context()), found.Smoke(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := s.Adopt(t.Context(), adoption(tarball.Agent("15.1.1"))); err == nil || !strings.Contains(err.Error(), "has a folder already") {
		t.Errorf("a second one: %v", err)
	}
	must(t, os.WriteFile(tree.Binary("tsh"), []byte("another"), 0o755))
	if _, damaged := errors.AsType[*DamagedError](found.Verify(t.Context())); !damaged {
		t.Error("its manifest says nothing about a program that was changed")
	}

	release := publish(t, s, oss("15.1.1"))
	wantWhole(t, release, soundTarball("15.1.1"))
	if _, err := os.Lstat(filepath.Join(release.Dir, originName)); !errors.Is(err, fs.ErrNotExist) || release.Dir != tree.Dir {
		t.Errorf("the release is in %s, and its origin: %v", release.Dir, err)
	}
	if got, err := os.ReadFile(release.BackupDir() + "/sqlite.db"); err != nil || string(got) != "rows" {
		t.Errorf("the database of the version is %q, %v", got, err)
	}
}

func TestWhatCannotBeAdoptedLeavesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*Adoption)
		want  string
	}{
		"it does not run":                  {func(a *Adoption) { a.Files[0] = adoptedFile("bin/teleport", "#!/bin/sh\nexit 3\n") }, "exit status 3"},
		"it says no version":               {func(a *Adoption) { a.Files[0] = adoptedFile("bin/teleport", "#!/bin/sh\n") }, "names no version"},
		"a file is not what it should be":  {func(a *Adoption) { a.Files[1].Write = func(io.Writer) error { return fs.ErrInvalid } }, "invalid"},
		"a file is shorter":                {func(a *Adoption) { a.Files[1].Size++ }, "bytes came"},
		"its database cannot be kept":      {func(a *Adoption) { a.Complete = func(string, Release) error { return fs.ErrPermission } }, "permission"},
		"it has a name that leads outside": {func(a *Adoption) { a.Files[1].Name = "../outside" }, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t)
			a := adoption(tarball.Agent("15.1.1"))
			tc.spoil(&a)
			if _, err := s.Adopt(t.Context(), a); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want %q in it", err, tc.want)
			}
			wantNothingLeft(t, s)
		})
	}
	s := testStore(t)
	a := adoption(tarball.Agent("15.1.1"))
	a.Files[1].Size = 1 << 60
	_, err := s.Adopt(t.Context(), a)
	if _, full := errors.AsType[*space.Error](err); !full {
		t.Errorf("more than the disk holds: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Adopt(ctx, adoption(tarball.Agent("15.1.1"))); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interruption: %v", err)
	}
	wantNothingLeft(t, s)
}

// A crash leaves what retention removes and nobody takes for a version.
func TestAnAdoptionThatIsCutOffLeavesALeftover(t *testing.T) {
	s := testStore(t)
	a := adoption(tarball.Agent("15.1.1"))
	a.Complete = func(string, Release) error {
		entries, err := s.List()
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Kind == Reserved })
		if err != nil || len(entries) == 0 || slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind != Leftover }) {
			t.Errorf("in the middle of it the store has %+v, %v", entries, err)
		}
		return nil
	}
	if _, err := s.Adopt(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}
