package installer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/integration/tarball"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// shelf is a host on 1.0.0, and a folder that has releases for it.
type shelf struct {
	*testing.T
	*Installer
	dir string
	c   state.Config
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{T: t, Installer: testInstaller(t), dir: t.TempDir(), c: state.EmptyConfig()}
	s.Machine.Now = func() time.Time { return noon }
	s.c.Spec.URLTemplates = []string{"file://" + s.dir + "/{{.Version}}.tar.gz"}
	s.c.Spec.ActiveVersion, s.c.Status.ActiveEdition = "1.0.0", version.OSS
	s.save()
	s.publish("1.0.0")
	s.has("1.0.0")()
	return s
}

func (s *shelf) save() {
	writeFile(s.T, s.Machine.Host.Paths.Config(), "")
	must(s.T, s.c.Save(s.Machine.Host.Paths.Config()))
}

// now is the configuration as it is on disk.
func (s *shelf) now() state.Config {
	s.Helper()
	c, err := s.Machine.Host.Paths.LoadConfig()
	must(s.T, err)
	return c
}

// publish puts a release on the shelf; more makes it another one of that name.
func (s *shelf) publish(v string, more ...tarball.Item) { s.put(v, append(tarball.Sound(v), more...)) }

func (s *shelf) put(v string, items []tarball.Item) {
	data := tarball.Gzip(tarball.Of(items...))
	writeFile(s.T, filepath.Join(s.dir, v+".tar.gz"), string(data))
	writeFile(s.T, filepath.Join(s.dir, v+".tar.gz.sha256"), fmt.Sprintf("%x\n", sha256.Sum256(data)))
}

func (s *shelf) obtains(v string) (versions.Tree, func(), error) {
	return s.obtainer().obtain(s.Context(), wanted{Release: version.Release{Version: v, Edition: version.OSS}, Config: s.c, Spec: s.c.Spec})
}

func (s *shelf) has(v string) (unclaim func()) {
	s.Helper()
	_, unclaim, err := s.obtains(v)
	must(s.T, err)
	return unclaim
}

// failed has a version that is on disk count as failed.
func (s *shelf) failed(v string) {
	tree, ok, err := s.Machine.Host.Store.Lookup(version.Release{Version: v, Edition: version.OSS})
	must(s.T, err)
	if !ok {
		s.Fatalf("version %s is not on disk", v)
	}
	s.c.Status.RecordFailure(state.Tree{Release: tree.Release, SHA256: tree.SHA256}, noon, "it died")
	s.save()
}

func (s *shelf) kept(want ...string) {
	s.Helper()
	entries, err := s.Machine.Host.Store.List()
	must(s.T, err)
	var got []string
	for _, e := range entries {
		if e.Kind == versions.Complete {
			got = append(got, e.Name)
		}
	}
	if !slices.Equal(got, want) {
		s.Errorf("on disk are %v; want %v", got, want)
	}
}

// Two commands are at work, each with a version of its own: neither removes the other's.
func TestACommandLeavesWhatAnotherOneHasFetched(t *testing.T) {
	s := newShelf(t)
	s.publish("1.1.0")
	s.publish("1.2.0")
	unclaim := s.has("1.1.0")
	other := *s
	done := other.has("1.2.0") // makes room first
	s.kept("1.0.0", "1.1.0", "1.2.0")
	other.obtainer().tidy(t.Context(), s.now())
	s.kept("1.0.0", "1.1.0", "1.2.0")
	done()
	s.obtainer().tidy(t.Context(), s.now())
	s.kept("1.0.0", "1.1.0")
	found := other.has("1.1.0") // on disk
	unclaim()
	s.obtainer().tidy(t.Context(), s.now())
	s.kept("1.0.0", "1.1.0")
	found()
	s.obtainer().tidy(t.Context(), s.now())
	s.kept("1.0.0")
}

func TestAVersionThatFailedIsKeptForItsNextAttempt(t *testing.T) {
	s := newShelf(t)
	s.publish("1.1.0")
	s.publish("1.2.0")
	s.has("1.1.0")()
	s.failed("1.1.0")
	s.obtainer().tidy(t.Context(), s.now())
	s.has("1.2.0")()
	s.kept("1.0.0", "1.1.0", "1.2.0")

	// The shelf has no more of it than its checksum.
	tarball := filepath.Join(s.dir, "1.1.0.tar.gz")
	must(t, os.Remove(tarball))
	s.has("1.1.0")()
	must(t, os.Remove(tarball+".sha256"))
	s.has("1.1.0")()

	// One at most: the one that failed last.
	s.failed("1.2.0")
	s.obtainer().tidy(t.Context(), s.now())
	s.kept("1.0.0", "1.2.0")
	// Its attempt is due, and does not come.
	s.Machine.Now = func() time.Time { return noon.Add(24 * time.Hour) }
	s.obtainer().tidy(t.Context(), s.now())
	s.kept("1.0.0", "1.2.0")
	s.Machine.Now = func() time.Time { return noon.Add(26 * time.Hour) }
	s.obtainer().tidy(t.Context(), s.now())
	s.kept("1.0.0")
}

func TestAnotherReleaseOfThatNameIsFetched(t *testing.T) {
	s := newShelf(t)
	s.publish("1.1.0")
	s.has("1.1.0")()
	s.failed("1.1.0")
	s.publish("1.1.0", tarball.Item{Name: "teleport/tbot", Data: "mended"})
	tree, unclaim, err := s.obtains("1.1.0")
	must(t, err)
	unclaim()
	if data, err := os.ReadFile(tree.Binary("tbot")); err != nil || string(data) != "mended" {
		t.Errorf("the release that failed is taken for the one that is published now: %q, %v", data, err)
	}

	// A release that does not run is found out by its own smoke run.
	s.failed("1.1.0")
	broken := tarball.Sound("1.1.0")
	for n := range broken {
		if broken[n].Name == "teleport/teleport" {
			broken[n].Data = tarball.Agent("9.9.9")
		}
	}
	s.put("1.1.0", broken)
	if _, _, err := s.obtains("1.1.0"); err == nil {
		t.Error("the release that failed passes the smoke run of the one that is published now")
	}
}

func TestAVersionThatFailedIsTheFirstToGoForSpace(t *testing.T) {
	s := newShelf(t)
	s.publish("1.1.0")
	s.publish("1.2.0")
	s.has("1.1.0")()
	s.failed("1.1.0")
	// A database that takes more room than there is.
	database, err := s.Machine.Host.Database()
	must(t, err)
	writeFile(t, database, "")
	must(t, os.Truncate(database, 1<<42))
	_, _, err = s.obtains("1.2.0")
	if _, full := errors.AsType[*space.Error](err); !full {
		t.Fatalf("got %v; want that there is no space", err)
	}
	s.kept("1.0.0")
	must(t, os.Remove(database))
	s.has("1.2.0")()
	s.kept("1.0.0", "1.2.0")
}

// The retention of another run knows nothing of what this one has just published: that
// says nothing against the version.
func TestAVersionThatAnotherRunRemovedIsNotBlamed(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		blamed bool
	}{
		"it does not run":                 {"#!/bin/sh\nexit 1\n", true},
		"its tree goes while it is tried": {"#!/bin/sh\n/bin/rm -rf \"${0%/bin/teleport}\"\nexit 1\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			items := tarball.Sound("1.1.0")
			for n := range items {
				if items[n].Name == "teleport/teleport" {
					items[n].Data = tc.script
				}
			}
			s.put("1.1.0", items)
			_, _, err := s.obtains("1.1.0")
			if _, blamed := errors.AsType[*SmokeError](err); err == nil || blamed != tc.blamed {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// A program says of which edition it is, signed or not: what the cluster wants is not run
// as another one.
func TestAProgramOfAnotherEditionIsNotTaken(t *testing.T) {
	fips := func(items []tarball.Item) []tarball.Item {
		items = tarball.Enterprise(items)
		for n := range items {
			items[n].Data = strings.Replace(items[n].Data, "go1.22", "go1.22 X:boringcrypto", 1)
		}
		return items
	}
	programs := map[version.Edition]func([]tarball.Item) []tarball.Item{
		version.OSS: func(items []tarball.Item) []tarball.Item { return items }, version.Enterprise: tarball.Enterprise, version.FIPS: fips,
	}
	for wants := range programs {
		for says, make := range programs {
			s := newShelf(t)
			if ran := (version.Release{Version: "1.0.0", Edition: wants}); wants != version.OSS {
				// It ran under this name before anybody asked its program.
				c := s.c
				c.Status.ActiveEdition = wants
				_, unclaim, err := s.obtainer().obtain(s.Context(), wanted{Release: ran, Config: c, Spec: c.Spec})
				if err != nil {
					t.Errorf("the active version of %s is not made whole: %v", wants, err)
				} else {
					unclaim()
				}
			}
			s.put("1.1.0", make(tarball.Sound("1.1.0")))
			_, unclaim, err := s.obtainer().obtain(s.Context(), wanted{Release: version.Release{Version: "1.1.0", Edition: wants}, Config: s.c, Spec: s.c.Spec})
			if taken := err == nil; taken != (says == wants) {
				t.Errorf("%s is wanted, and the program says %q: %v", wants, says, err)
			} else if taken {
				unclaim()
			} else if text := err.Error(); !strings.Contains(text, fmt.Sprintf("of edition %s, and the cluster wants %s", says, wants)) ||
				!strings.Contains(text, "the URL template may lack the part of the edition ({{if .Enterprise}}-ent{{end}}, {{if .FIPS}}-fips{{end}})") {
				t.Error(err)
			}
		}
	}
}
