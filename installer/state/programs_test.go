package state

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/internal/layout"
)

func TestProgramsAreWhereTheHostHasThem(t *testing.T) {
	if got := (Paths{DataDir: layout.DataDir}).Programs(); got != "/opt/teleport-update" {
		t.Errorf("the usual programs are in %s", got)
	}
	for name, tc := range map[string]struct {
		config, journal string
		at              string // a folder of the version that is active
		linked          bool   // the agent's link leads there
		asked, want     string // want "": the store
	}{
		"a host without a version":               {},
		"a host without a version, asked":        {asked: "/srv/asked", want: "/srv/asked"},
		"what updates.yaml says":                 {config: "  active_version: 1.0.0\n  programs_dir: /srv/mine\n", asked: "/srv/asked", want: "/srv/mine"},
		"a version in the store":                 {config: "  active_version: 1.0.0\n", at: "data/versions", asked: "/srv/asked"},
		"a version that is linked elsewhere":     {config: "  active_version: 1.0.0\n", at: "opt", linked: true, want: "opt"},
		"a version that is there and not linked": {config: "  active_version: 1.0.0\n", at: "opt", asked: "/srv/asked", want: "/srv/asked"},
		"a version that is nowhere":              {config: "  active_version: 1.0.0\n", asked: "/srv/asked", want: "/srv/asked"},
		"an open transaction": {
			config:  "  active_version: 1.0.0\n  programs_dir: /srv/mine\n",
			journal: `{"schema":1,"readable_from":1,"to":{"version":"1.1.0","edition":"oss","sha256":"","dir":"/x/1.1.0","programs":"/srv/open/1.1.0"}}`, want: "/srv/open",
		},
		"an open transaction without updates.yaml": {
			journal: `{"schema":1,"readable_from":1,"phase":"begun","config":"version: v1\nkind: agent_versions\nspec:\n  programs_dir: /srv/mine\n"}`, want: "/srv/mine",
		},
		"what cannot be read": {config: "  programs_dir: relative\n", asked: "/srv/asked", want: "/srv/asked"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := Paths{DataDir: filepath.Join(dir, "data"), LinkDir: filepath.Join(dir, "bin")}
			for _, d := range []string{p.Versions(), p.LinkDir, filepath.Join(dir, tc.at, "1.0.0", "bin")} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if tc.config != "" {
				writeFile(t, p.Config(), "version: v1\nkind: agent_versions\nspec:\n"+tc.config)
			}
			if tc.journal != "" {
				writeFile(t, p.Journal(), tc.journal)
			}
			for _, path := range []string{p.Config(), p.Journal()} {
				if err := os.Chmod(path, 0o600); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			if tc.linked {
				if err := os.Symlink(filepath.Join(dir, tc.at, "1.0.0", "bin", "teleport"), filepath.Join(p.LinkDir, "teleport")); err != nil {
					t.Fatal(err)
				}
			}
			want := tc.want
			switch want {
			case "":
				want = p.Versions()
			case "opt":
				want = filepath.Join(dir, want)
			}
			if got := p.InPlace(tc.asked).Programs(); got != want {
				t.Errorf("programs are in %s; want %s", got, want)
			}
		})
	}
}

func TestTheDataFolderIsRootsAloneWhereItIsMadeHere(t *testing.T) {
	for name, made := range map[string]os.FileMode{"made here": 0, "another's": 0o750} {
		t.Run(name, func(t *testing.T) {
			p := Paths{DataDir: filepath.Join(t.TempDir(), "lib", "teleport")}
			want := os.FileMode(0o700)
			if made != 0 {
				if err := os.MkdirAll(p.DataDir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(p.DataDir, made); err != nil {
					t.Fatal(err)
				}
				want = made
			}
			unlock, err := Lock(t.Context(), p.UpdateLock(), 0)
			if err != nil {
				t.Fatal(err)
			}
			unlock()
			for path, want := range map[string]os.FileMode{filepath.Dir(p.DataDir): 0o755, p.DataDir: want, p.Versions(): 0o755} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, want)
				}
			}
		})
	}
}

// What enable was given is in force for every later command, whatever the place.
func TestPlacesThatEnableWasGivenAreKept(t *testing.T) {
	usual := DefaultPaths()
	for name, set := range map[string]func(*Paths){
		"unit-dir":     func(p *Paths) { p.UnitDir = "/etc/systemd/system" },
		"link-dir":     func(p *Paths) { p.LinkDir = "/srv/bin" },
		"agent-config": func(p *Paths) { p.AgentConfig = "/etc/teleport-node.yaml" },
		"nothing":      func(*Paths) {},
	} {
		t.Run(name, func(t *testing.T) {
			usual := usual
			usual.DataDir = t.TempDir()
			given := usual
			set(&given)
			c := EmptyConfig()
			c.Spec.UnitDir, c.Spec.LinkDir, c.Spec.AgentConfig = "/old", "/old", "/old"
			c.Spec = given.Given(c.Spec)
			writeFile(t, usual.Config(), "")
			if err := c.Save(usual.Config()); err != nil {
				t.Fatal(err)
			}
			if got := usual.InPlace(""); got != given {
				t.Errorf("a later command has %+v; want %+v", got, given)
			}
		})
	}
}
