package host

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/state"
)

func TestWhatHasComeBackSinceIsNoHindranceForPuttingBackTheRest(t *testing.T) {
	for name, tc := range map[string]struct {
		since func(config, link string) error
		want  []string // put back
	}{
		"nothing":                    {func(string, string) error { return nil }, []string{"config", "link"}},
		"another configuration":      {func(config, _ string) error { return os.WriteFile(config, []byte("newer"), 0o600) }, []string{"link"}},
		"a link elsewhere":           {func(_, link string) error { return os.Symlink("elsewhere", link) }, []string{"config"}},
		"a folder":                   {func(config, _ string) error { return os.Mkdir(config, 0o755) }, []string{"link"}},
		"all of it, as it was":       {func(config, _ string) error { return os.WriteFile(config, []byte("theirs"), 0o600) }, []string{"config", "link"}},
		"a copy that was never made": {func(string, string) error { return nil }, []string{"link"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			dir := t.TempDir()
			config, link, program := filepath.Join(dir, "config"), filepath.Join(dir, "link"), filepath.Join(dir, "program")
			must(t, os.WriteFile(config, []byte("theirs"), 0o600))
			must(t, os.WriteFile(program, nil, 0o755))
			must(t, os.Symlink(program, link))
			var files []state.LinkChange
			for _, path := range []string{config, link} {
				before, err := beforeOf(path)
				must(t, err)
				files = append(files, state.LinkChange{Path: path, Before: before})
			}
			must(t, h.WriteOriginals(Originals{}))
			must(t, h.RemoveReplaced(files))
			if Exists(config) || Exists(link) {
				t.Fatal("they are not removed")
			}
			must(t, tc.since(config, link))
			if name == "a copy that was never made" {
				must(t, os.Remove(filepath.Join(h.Paths.Original(), files[0].Before.Saved)))
			}
			for range 2 {
				back, err := h.PutBackReplaced()
				must(t, err)
				var names []string
				for _, c := range back {
					names = append(names, filepath.Base(c.Path))
					if now, err := beforeOf(c.Path); err != nil || now != c.Before {
						t.Errorf("%s is %v, %v", c.Path, now, err)
					}
				}
				if len(names) != len(tc.want) || names[0] != tc.want[0] {
					t.Errorf("put back %q; want %q", names, tc.want)
				}
			}
		})
	}
}

// Another updater may come back after it was replaced, or a second one come: uninstall still
// knows what the first replacement put aside, and of one file what was there last.
func TestASecondReplacementKeepsWhatTheFirstPutAside(t *testing.T) {
	h := testHost(t)
	dir := t.TempDir()
	paths := map[string]string{"first": filepath.Join(dir, "first"), "both": filepath.Join(dir, "both"), "second": filepath.Join(dir, "second")}
	replace := func(names ...string) {
		var files []state.LinkChange
		for _, name := range names {
			must(t, os.WriteFile(paths[name], []byte(names[0]), 0o600))
			before, err := beforeOf(paths[name])
			must(t, err)
			files = append(files, state.LinkChange{Path: paths[name], Before: before})
		}
		for range 2 { // it may be cut off, and begins again
			must(t, h.RemoveReplaced(files))
		}
	}
	must(t, h.WriteOriginals(Originals{}))
	replace("first", "both")
	replace("second", "both")
	must(t, h.RemoveReplaced(nil)) // asked for once more, with nothing there
	back, err := h.PutBackReplaced()
	must(t, err)
	if len(back) != 3 {
		t.Errorf("put back %v", back)
	}
	for name, want := range map[string]string{"first": "first", "both": "second", "second": "second"} {
		if got, err := os.ReadFile(paths[name]); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
