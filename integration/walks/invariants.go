package walks

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// snapshot is what a command that fails must not change: all but the versions,
// which the models cover, and what may record the failure.
func (w *walk) snapshot() (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, w.dir)
		if e.IsDir() {
			if name == "/scratch" || filepath.Dir(path) == w.versions() && e.Name() != "original" {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Dir(path) == w.versions() || strings.HasSuffix(name, "-shm") { // which readers share
			return nil
		}
		info, err := e.Info()
		if err == nil {
			files[name] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	data, readErr := os.ReadFile(w.config())
	var c state.Config
	if err == nil && readErr == nil {
		_ = yaml.Unmarshal(data, &c) // somebody may have broken it
	}
	files["spec"] = fmt.Sprintf("%+v", c.Spec)
	return files, err
}

func (w *walk) untouched(before map[string]string) (string, error) {
	after, err := w.snapshot()
	if err != nil {
		return "", err
	}
	var changed []string
	for name, was := range before {
		if now := after[name]; now != was {
			changed = append(changed, fmt.Sprintf("a command that failed changed %s: %s; it was %s", name, now, was))
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			changed = append(changed, "a command that failed made "+name)
		}
	}
	slices.Sort(changed)
	return strings.Join(changed, "\n"), nil
}

// newest is a version that no walk knows, but its end.
var newest = Release{Version: "3.0.0", Edition: version.OSS}

// wayBack checks the invariants of RFD 0169 §Downgrades after a transaction: what was
// just done can be reversed exactly.
func (w *walk) wayBack(ctx context.Context, c Command, was *Model) (string, error) {
	m := w.may[0]
	left := m.tree(was.Active)
	if was.Active == m.Active || m.Active == (Release{}) || !left.here() || left.Damage != Whole || !left.Build.Runs ||
		was.Active.Version == m.Active.Version || c.SkipBackup {
		return "", nil
	}
	r, err := w.run(ctx, false, 0, "rollback", was.Active.Version, "--dry-run")
	if err != nil {
		return "", err
	}
	want := "the one that version " + was.Active.Version
	if was.Database == nil {
		want = "none to back up"
	}
	if r.code != 0 || !strings.Contains(r.stdout, want) {
		return fmt.Sprintf("the transaction from %s to %s cannot be reversed exactly: exit code %d\n%s%s", was.Active, m.Active, r.code, r.stdout, r.stderr), nil
	}
	return "", nil
}

// converge sees that a host is not stuck, whatever became of it: a sound version
// that is newer than all others comes through.
func (w *walk) converge(ctx context.Context) (string, error) {
	w.out = Outside{Target: newest, Auto: true, Shelves: map[Release]Shelf{newest: {Build: Build{Release: newest, Number: 1, Runs: true}}}}
	for _, r := range Releases() {
		w.out.Shelves[r] = Shelf{Missing: true}
	}
	w.set(w.out)
	insist := Command{Name: "enable", Force: true}
	for _, c := range []Command{{Name: "unpin"}, {Name: "enable"}, insist, {Name: "update", Now: true}} {
		if c == insist && w.may[0].Active == newest {
			continue // the refusal advises it if a damaged version cannot be fetched any more, or the database is missing
		}
		if what, err := w.command(ctx, c, 0); err != nil || what != "" {
			return fmt.Sprintf("%v: %s", c, what), err
		}
	}
	if m := w.may[0]; m.Active != newest || !m.Enabled {
		return fmt.Sprintf("the model itself stays on %s", m.Active), nil
	}
	return "", nil
}
