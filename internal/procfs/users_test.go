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

// A file that is open is elsewhere once its name leads to it no more.
func TestWhatIsOpenAndNotInItsPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		move      func(path string) error
		elsewhere string
	}{
		"in its place":            {func(string) error { return nil }, ""},
		"removed":                 {os.Remove, "/db (deleted)"},
		"renamed with its folder": {func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".away") }, ""},
		"another in its place": {func(path string) error {
			other := path + ".new"
			if err := os.WriteFile(other, nil, 0o600); err != nil {
				return err
			}
			return os.Rename(other, path)
		}, "/db (deleted)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "proc")
			path := filepath.Join(dir, "db")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := tc.move(path); err != nil {
				t.Fatal(err)
			}
			want := tc.elsewhere
			if want != "" {
				want = dir + want
			}
			pids := []int{os.Getpid()}
			if got := Host().OpenElsewhere(pids, "db"); got != want {
				t.Errorf("it is open as %q; want %q", got, want)
			}
			if got := Host().OpenElsewhere(pids, "other"); got != "" {
				t.Errorf("a file of another name is open as %q", got)
			}
		})
	}
}
