package systemd

import (
	"os"
	"path/filepath"
	"testing"
)

// systemd does not say itself that it has not read the first drop-in of a unit, whose folder is new.
func TestFilesThatSystemdHasNotRead(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := write("a-b.service.d/50-own.conf")
	u := Unit{Name: "a-b.service", LoadState: "loaded"}
	if !HasUnread(u, []string{dir}) || HasUnread(u, []string{dir}, own) || HasUnread(u, nil) {
		t.Error("a drop-in that was not read")
	}
	u.DropIns = []string{"/lib/other/50-own.conf"} // the same folder by another name
	if HasUnread(u, []string{dir}) {
		t.Error("it was read")
	}
	for _, other := range []string{"c.service.d/x.conf", "a-b.service.d/readme", "a-b.timer.d/x.conf", "a-b.service.d/folder.conf/x"} {
		write(other)
	}
	if err := os.Symlink(os.DevNull, filepath.Join(dir, "a-b.service.d/masked.conf")); err != nil {
		t.Fatal(err)
	}
	if HasUnread(u, []string{dir}) {
		t.Error("files that are no drop-ins of its")
	}
	if write("service.d/z.conf"); HasUnread(u, []string{dir}) {
		t.Error("an old systemd does not read what is for all services")
	}
	if second := write("a-b.service.d/60-second.conf"); !HasUnread(u, []string{"/nonexistent", dir}) || HasUnread(u, []string{dir}, second) {
		t.Error("another drop-in that was not read")
	}
	u.NeedDaemonReload = true
	if !HasUnread(u, nil) {
		t.Error("systemd says so itself")
	}
	u.LoadState, u.NeedDaemonReload = "not-found", false
	if HasUnread(u, []string{dir}) {
		t.Error("a unit that is not there")
	}
}

// A file that ranks above the one that systemd has loaded is in force from the next boot on. One below, another name of the one that
// is loaded, and what systemd passes over are not.
func TestAUnitFileThatRanksAbove(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	unit := func(path, _ string) error { return os.WriteFile(path, []byte("[Service]\n"), 0o644) }
	for name, tc := range map[string]struct {
		put       func(path, fragment string) error
		is, masks bool
		rank      int // of the folder: 0 and 1 rank above the one of the unit
		load      string
	}{
		"nothing":                 {put: func(string, string) error { return nil }},
		"a unit":                  {put: unit, is: true},
		"a unit in the next one":  {put: unit, is: true, rank: 1},
		"a unit below":            {put: unit, rank: 3},
		"a mask":                  {put: func(path, _ string) error { return os.Symlink(os.DevNull, path) }, is: true, masks: true},
		"an empty file":           {put: func(path, _ string) error { return os.WriteFile(path, nil, 0o644) }, is: true, masks: true},
		"a link to the unit":      {put: func(path, fragment string) error { return os.Symlink(fragment, path) }},
		"a link to nothing":       {put: func(path, _ string) error { return os.Symlink("/nonexistent", path) }},
		"a folder":                {put: func(path, _ string) error { return os.Mkdir(path, 0o755) }},
		"a unit, none was loaded": {put: func(path, _ string) error { return os.WriteFile(path, nil, 0o644) }, load: "not-found"},
	} {
		root := t.TempDir()
		var dirs []string
		for _, dir := range []string{"first", "second", "own", "last"} {
			dirs = append(dirs, filepath.Join(root, dir))
			must(os.Mkdir(filepath.Join(root, dir), 0o755))
		}
		fragment, other := filepath.Join(dirs[2], "a.service"), filepath.Join(dirs[tc.rank], "a.service")
		must(os.WriteFile(fragment, []byte("[Service]\n"), 0o644))
		must(tc.put(other, fragment))
		u := Unit{Name: "a.service", LoadState: "loaded", FragmentPath: fragment}
		if tc.load != "" {
			u.LoadState = tc.load
		}
		want := ""
		if tc.is {
			want = other
		}
		if got, masks := Outranking(u, dirs); got != want || masks != tc.masks || HasUnread(u, dirs) != tc.is {
			t.Errorf("%s: systemd takes %q, unread %v; want %q", name, got, HasUnread(u, dirs), want)
		}
		if path, _ := Outranking(u, dirs[:2]); path != "" {
			t.Errorf("%s: nobody knows the rank of the folder of the unit", name)
		}
	}
}
