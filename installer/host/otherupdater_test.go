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
