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
