package procfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// The table of locks has another device than stat(2) on file systems of several parts, whose inodes may have the same numbers.
func TestWhoLocksAFileOfAFileSystemOfSeveralDevices(t *testing.T) {
	for system, mount := range map[string]func(t *testing.T, at string) error{
		"overlay": func(t *testing.T, at string) error {
			under := t.TempDir()
			if err := unix.Mount("tmpfs", under, "tmpfs", 0, "size=1m"); err != nil {
				return err
			}
			t.Cleanup(func() { _ = unix.Unmount(under, 0) })
			lower, upper, work := t.TempDir(), filepath.Join(under, "upper"), filepath.Join(under, "work")
			if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
				return err
			}
			return unix.Mount("overlay", at, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work)
		},
		"btrfs": func(t *testing.T, at string) error {
			image := filepath.Join(t.TempDir(), "image")
			if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 128<<20)); err != nil {
				return err
			}
			if err := exec.Command("mkfs.btrfs", "-q", image).Run(); err != nil {
				return err
			}
			return exec.Command("mount", "-o", "loop", image, at).Run()
		},
	} {
		t.Run(system, func(t *testing.T) {
			at := t.TempDir()
			if err := mount(t, at); err != nil {
				t.Skip(err)
			}
			defer unix.Unmount(at, 0)
			locked, err := os.Create(filepath.Join(at, "locked"))
			if err != nil {
				t.Fatal(err)
			}
			defer locked.Close()
			open, err := os.Create(filepath.Join(at, "open"))
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if err := unix.Flock(int(locked.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			if !Host().Locked(locked.Name()) {
				t.Error("who locks it is not found")
			}
			if Host().Locked(open.Name()) {
				t.Error("a file that is only open counts as locked")
			}
		})
	}
}

// Two subvolumes of a file system have files with the same inode.
func TestALockOfAnotherDeviceCountsForTheFileThatItsHolderHasOpen(t *testing.T) {
	const lock = "lock:\t1: FLOCK  ADVISORY  WRITE 10 00:2a:7 0 EOF\n"
	for name, tc := range map[string]struct {
		open   string // by the holder of the lock
		info   string // about that
		locked bool
	}{
		"this file, and locked":     {"file", lock, true},
		"this file, without a lock": {"file", "flags:\t0100000\n", false},
		"another file, and locked":  {"other", lock, false},
	} {
		t.Run(name, func(t *testing.T) {
			proc := FS{Proc: t.TempDir()}
			put := func(name, text string) string {
				t.Helper()
				path := filepath.Join(proc.Proc, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
				return path
			}
			file := put("file", "")
			put("other", "")
			id, err := Identify(file, 0)
			if err != nil {
				t.Fatal(err)
			}
			put("locks", fmt.Sprintf("1: FLOCK  ADVISORY  WRITE 10 %02x:%02x:%d 0 EOF\n", id.Major, id.Minor+1, id.Inode))
			put("10/fdinfo/3", tc.info)
			put("10/fd/none", "")
			if err := os.Symlink(filepath.Join(proc.Proc, tc.open), filepath.Join(proc.Proc, "10/fd/3")); err != nil {
				t.Fatal(err)
			}
			if got := proc.Locked(file); got != tc.locked {
				t.Errorf("locked: %t", got)
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
