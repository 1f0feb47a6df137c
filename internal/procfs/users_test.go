package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHowAProcessHasAFileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		flags int
		lock  func(f *os.File) error // held by the process, whose descriptor is the same
		want  User
	}{
		"for reading":                {flags: os.O_RDONLY},
		"for reading and writing":    {flags: os.O_RDWR, want: User{Writes: true}},
		"for writing":                {flags: os.O_WRONLY | os.O_APPEND, want: User{Writes: true}},
		"as a path alone":            {flags: unix.O_PATH},
		"for reading, with flock(2)": {flags: os.O_RDONLY, want: User{Locks: true}, lock: func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_SH) }},
		"for reading, with a read lock": {flags: os.O_RDONLY, want: User{Locks: true}, lock: func(f *os.File) error {
			return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Start: 7, Len: 1})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.OpenFile(path, tc.flags, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if tc.lock != nil {
				if err := tc.lock(f); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("sleep", "600")
			cmd.ExtraFiles = []*os.File{f}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			users, err := Host().Users([]FileID{id})
			tc.want.PID = cmd.Process.Pid
			if err != nil || len(users) != 1 || users[0] != tc.want {
				t.Errorf("%+v, %v; want %+v", users, err, tc.want)
			}
		})
	}
	if users, err := Host().Users([]FileID{id}); err != nil || len(users) != 0 {
		t.Errorf("after their end: %+v, %v", users, err)
	}
}

// What was removed or renamed is still found, by the name that it has now.
func TestWhatAProcessHasOpenByItsName(t *testing.T) {
	for name, tc := range map[string]struct {
		move func(dir, path string) error
		want string
	}{
		"in its place":            {func(_, _ string) error { return nil }, "proc/db"},
		"removed":                 {func(_, path string) error { return os.Remove(path) }, "proc/db (deleted)"},
		"renamed":                 {func(_, path string) error { return os.Rename(path, path+".old") }, "proc/db.old"},
		"renamed with its folder": {func(dir, _ string) error { return os.Rename(dir, dir+".old") }, "proc.old/db"},
		"by another name":         {func(dir, path string) error { return os.Rename(path, filepath.Join(dir, "other")) }, ""},
		"beside a database":       {func(_, path string) error { return os.Rename(path, path+"-wal") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "proc")
			path := filepath.Join(dir, "db")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := tc.move(dir, path); err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want != "" {
				want = filepath.Join(root, want)
			}
			if got := Host().OpenByName([]int{os.Getpid()}, "db"); got != want {
				t.Errorf("it is open as %q; want %q", got, want)
			}
			if got := Host().HasDatabase(os.Getpid(), "db"); got != (name != "by another name") {
				t.Errorf("the process has the database: %t", got)
			}
			if sees := Host().Sees(os.Getpid(), path); sees != (name == "in its place") {
				t.Errorf("the process sees it: %t", sees)
			}
		})
	}
}
