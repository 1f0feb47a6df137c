package procfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhoLocksAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Host().Locked(file) {
		t.Error("it is locked by nobody")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if !Host().Locked(file) {
		t.Error("who locks it is not found")
	}
	if byUsers := Host().LockedByUsers(file); byUsers == (os.Getuid() == 0) {
		t.Errorf("locked by users, it says of us: %v", byUsers)
	}

	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	const line = "1: FLOCK  ADVISORY  %s %d %02x:%02x:%d 0 EOF\n"
	lock := func(mode string, pid int, inode uint64) string {
		return fmt.Sprintf(line, mode, pid, unix.Major(st.Dev), unix.Minor(st.Dev), inode)
	}
	proc := FS{Proc: t.TempDir()}
	for pid, uid := range map[string]string{"10": "0\t0\t0\t0", "20": "1000\t1000\t1000\t1000", "30": "1000\t0\t0\t0"} {
		dir := filepath.Join(proc.Proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tx\nUid:\t"+uid+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		locks           string
		locked, byUsers bool
	}{
		"nobody":                        {"", false, false},
		"root":                          {lock("WRITE", 10, st.Ino), true, false},
		"a user":                        {lock("WRITE", 20, st.Ino), true, true},
		"a program that a user lent":    {lock("WRITE", 30, st.Ino), true, true},
		"a process that is gone":        {lock("WRITE", 40, st.Ino), true, true},
		"a user and root, both to read": {lock("READ", 20, st.Ino) + lock("READ", 10, st.Ino), true, false},
		"a user, another file":          {lock("WRITE", 20, st.Ino+1), false, false},
		"a user who waits":              {strings.Replace(lock("WRITE", 20, st.Ino), "FLOCK", "-> FLOCK", 1), false, false},
		"a user, by another call":       {strings.Replace(lock("WRITE", 20, st.Ino), "FLOCK", "POSIX", 1), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(proc.Proc, "locks"), []byte(tc.locks), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := proc.Locked(file); got != tc.locked {
				t.Errorf("locked: %v", got)
			}
			if got := proc.LockedByUsers(file); got != tc.byUsers {
				t.Errorf("locked by users: %v", got)
			}
		})
	}
}

// One process on a file system that answers with errors, as another user's FUSE mount does, hides no other.
func TestAnExecutableThatCannotBeIdentifiedIsHidden(t *testing.T) {
	proc := t.TempDir()
	for pid, program := range map[string]string{"7": filepath.Join(proc, "7", "exe"), "8": "/proc/self/exe"} { // 7 has a link to itself
		if err := errors.Join(os.Mkdir(filepath.Join(proc, pid), 0o755), os.Symlink(program, filepath.Join(proc, pid, "exe"))); err != nil {
			t.Fatal(err)
		}
	}
	all, err := FS{Proc: proc}.Executables()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if all[0].Hidden == nil || all[0].Path != "" || all[1].Hidden != nil || all[1].File == (FileID{}) {
		t.Errorf("%+v; want the first one hidden, and the other one seen", all)
	}
}
