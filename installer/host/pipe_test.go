package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
)

// Whoever may write in one of these places could keep each run waiting with a pipe.
func TestNoPipeIsWaitedFor(t *testing.T) {
	h := testHost(t)
	pipe := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "content")
	tree := h.release(t, "1.0.0", version.OSS, false)
	dropIns := filepath.Join(h.configDir(), h.Paths.AgentUnit()+".d")
	for name, tc := range map[string]struct {
		path string
		read func(path string) error
		want string // part of the error; empty: it is passed over
	}{
		"the fixed copy": {h.Paths.Updater(), func(path string) error {
			same, err := SameContent(file, path)
			if same {
				t.Error("a pipe is taken for the file")
			}
			return err
		}, ""},
		"a program in the place of a link": {filepath.Join(h.Paths.LinkDir, "teleport"), func(path string) error { _, err := digestOf(path, regular.NoLink); return err }, "is not a regular file"},
		"the agent's unit":                 {h.Paths.Unit(), func(path string) error { _, err := ReadUnit(path); return err }, "is neither a file nor a link"},
		"the unit of a version": {filepath.Join(h.Paths.Versions(), "2.0.0/etc/systemd/teleport.service"), func(string) error {
			other := tree
			other.Dir = filepath.Join(h.Paths.Versions(), "2.0.0")
			_, err := h.unitOf(other)
			return err
		}, "is not a regular file"},
		"a drop-in": {filepath.Join(dropIns, "a.conf"), func(string) error {
			writeFile(t, filepath.Join(dropIns, "b.conf"), "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --config=/etc/teleport.yaml\n")
			if !h.hasOwnCommand() {
				t.Error("the drop-in after it is not read")
			}
			return nil
		}, ""},
		"a unit of no version": {filepath.Join(h.Paths.Programs(), "mine/etc/systemd", h.Paths.AgentUnit()), func(string) error {
			writeFile(t, h.Paths.Unit(), "[Service]\n")
			defer os.Remove(h.Paths.Unit())
			if !h.ForeignUnit(state.UnitFile{}) {
				t.Error("the unit is taken for a version's")
			}
			return nil
		}, ""},
		"a file of enable's": {filepath.Join(t.TempDir(), "token"), func(path string) error {
			must(t, h.WriteOriginals(Originals{Placed: []PlacedFile{{Path: path}}}))
			defer os.RemoveAll(h.Paths.Original())
			return RemovePlaced(h)
		}, ""},
	} {
		path := pipe(tc.path)
		ended := make(chan error, 1)
		go func() { ended <- tc.read(path) }()
		select {
		case err := <-ended:
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v; want %q", name, err, tc.want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: a pipe is waited for", name)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}
