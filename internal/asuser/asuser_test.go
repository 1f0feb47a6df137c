package asuser

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// someone is a user and a group that no host has, and another group.
const (
	someone = 54321
	other   = 54322
)

// openFolder is a folder that every user may go into.
func openFolder(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		must(t, os.Chmod(d, 0o755))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withID is an account whose groups "id" knows, as the host's directories would.
func withID(t *testing.T, groups string) Account {
	t.Helper()
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "id"), []byte("#!/bin/sh\necho "+groups+"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return Account{Name: "someone", UID: someone, GID: someone}
}

func TestWhatModesSayOfAUser(t *testing.T) {
	dir := openFolder(t)
	a := withID(t, "54321 54322")
	for name, tc := range map[string]struct {
		folder, file fs.FileMode
		uid, gid     int
		to           Right
		barrier      string // "folder", "file", or nothing
		class        string
		lacks        Right
	}{
		"open to all":               {folder: 0o755, file: 0o755, to: Read | Execute},
		"its own":                   {folder: 0o755, file: 0o700, uid: someone, to: Read | Write},
		"its own, without a right":  {folder: 0o755, file: 0o077, uid: someone, to: Read, barrier: "file", class: "u", lacks: Read},
		"its group's":               {folder: 0o755, file: 0o640, gid: someone, to: Read},
		"its other group's":         {folder: 0o755, file: 0o640, gid: other, to: Read},
		"its group's, to be read":   {folder: 0o755, file: 0o646, gid: someone, to: Write, barrier: "file", class: "g", lacks: Write},
		"another's":                 {folder: 0o755, file: 0o750, to: Execute, barrier: "file", class: "o", lacks: Execute},
		"another's, to be read":     {folder: 0o755, file: 0o644, to: Read | Write, barrier: "file", class: "o", lacks: Write},
		"a folder above":            {folder: 0o700, file: 0o755, to: Read, barrier: "folder", class: "o", lacks: Execute},
		"a folder that shows names": {folder: 0o744, file: 0o755, to: Read, barrier: "folder", class: "o", lacks: Execute},
		"a folder that shows none":  {folder: 0o711, file: 0o755, to: Read},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			file := filepath.Join(folder, "file")
			must(t, os.Mkdir(folder, 0o755))
			must(t, os.WriteFile(file, nil, 0o600))
			must(t, os.Chmod(file, tc.file))
			must(t, os.Chmod(folder, tc.folder))
			must(t, os.Chown(file, tc.uid, tc.gid))
			links := filepath.Join(dir, "link-to-"+filepath.Base(folder))
			must(t, os.Symlink(filepath.Base(folder)+"/./file", links)) // what a link leads to counts
			absolute := links + "-too"
			must(t, os.Symlink(folder+"/file", absolute))
			for _, path := range []string{file, links, absolute, filepath.Join(dir, "..", filepath.Base(dir), filepath.Base(folder), "..", filepath.Base(links))} {
				b, err := a.Barred(t.Context(), path, tc.to)
				must(t, err)
				if tc.barrier == "" {
					if b != nil {
						t.Errorf("%+v keeps the user from it", b)
					}
					continue
				}
				want := map[string]string{"folder": folder, "file": file}[tc.barrier]
				if b == nil || b.Path != want || b.Class != tc.class || b.Lacks != tc.lacks {
					t.Fatalf("%+v keeps the user from it, want %s, class %s, right %d", b, want, tc.class, tc.lacks)
				}
			}
		})
	}
}

// No child is asked for what modes allow, so none has to be there.
func TestModesThatAllowAskNobody(t *testing.T) {
	file := filepath.Join(openFolder(t), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	a := Account{Name: "no-such-user", UID: someone, GID: someone, Groups: []uint32{other}, shell: "/nonexistent"}
	if b, err := a.Barred(t.Context(), file, Read); b != nil || err != nil {
		t.Errorf("%+v, %v", b, err)
	}
	must(t, os.Chmod(file, 0o640))
	must(t, os.Chown(file, 0, other))
	if b, err := a.Barred(t.Context(), file, Read); b != nil || err != nil {
		t.Errorf("%+v, %v", b, err)
	}
}

// What the kernel allows is open, whatever the modes say: an ACL gives a user more.
func TestAnACLOpensWhatTheModeCloses(t *testing.T) {
	dir := openFolder(t)
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	a := withID(t, "54321")
	if b, err := a.Barred(t.Context(), file, Read); err != nil || b == nil {
		t.Fatalf("without an ACL it is open: %v", err)
	}
	// user::rw-, user:54321:r--, group::---, mask::r--, other::---
	acl := []byte{2, 0, 0, 0}
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, 4, someone}, {4, 0, ^uint32(0)}, {16, 4, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		acl = append(acl, byte(e.tag), byte(e.tag>>8), byte(e.perm), byte(e.perm>>8), byte(e.id), byte(e.id>>8), byte(e.id>>16), byte(e.id>>24))
	}
	if err := syscall.Setxattr(file, "system.posix_acl_access", acl, 0); errors.Is(err, syscall.EOPNOTSUPP) {
		t.Logf("%s has no ACLs: a shell that says yes stands for the kernel", dir)
		a.shell = shell(t, "exit 0")
	} else {
		must(t, err)
	}
	if b, err := a.Barred(t.Context(), file, Read); err != nil || b != nil {
		t.Errorf("the ACL allows it, and %+v keeps the user from it: %v", b, err)
	}
}

// shell is a program that stands for the shell.
func shell(t *testing.T, does string) string {
	t.Helper()
	path := filepath.Join(openFolder(t), "shell")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+does+"\n"), 0o755))
	return path
}

// Who cannot ask does not know: neither that it is closed, nor that it is open.
func TestAQuestionThatNobodyAnswersIsNoAnswer(t *testing.T) {
	file := filepath.Join(openFolder(t), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for name, does := range map[string]string{
		"it is killed":       "kill -KILL $$",
		"it fails otherwise": "exit 2",
		"it is not there":    "",
		"it does not end":    "exec sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			a := withID(t, "54321")
			if a.shell = "/nonexistent"; does != "" {
				a.shell = shell(t, does)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			b, err := a.Barred(ctx, file, Read)
			if b != nil || err == nil || time.Since(begun) > 10*time.Second {
				t.Errorf("%+v, %v after %v", b, err, time.Since(begun))
			}
		})
	}
	t.Run("what knows its groups hangs", func(t *testing.T) {
		a := withID(t, "; sleep 8 & exec sleep 8") // the second one holds the answer's other end, whoever is killed
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("it is late"))
		defer cancel()
		begun := time.Now()
		if b, err := a.Barred(ctx, file, Read); b != nil || err == nil || !strings.Contains(err.Error(), "it is late") || time.Since(begun) > 5*time.Second {
			t.Errorf("%+v, %v after %v", b, err, time.Since(begun))
		}
	})
	t.Run("nobody knows its groups", func(t *testing.T) {
		a := withID(t, "; exit 1")
		if b, err := a.Barred(t.Context(), file, Read); b != nil || err == nil {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

// What is missing is said as such, and so is a way that leads nowhere.
func TestAWayThatLeadsNowhere(t *testing.T) {
	dir := openFolder(t)
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	must(t, os.Symlink("gone", filepath.Join(dir, "dangling")))
	must(t, os.Symlink("circle", filepath.Join(dir, "circle")))
	for path, want := range map[string]error{"gone": fs.ErrNotExist, "gone/file": fs.ErrNotExist, "dangling": fs.ErrNotExist,
		"file/below": syscall.ENOTDIR, "circle": syscall.ELOOP} {
		if b, err := withID(t, "54321").Barred(t.Context(), filepath.Join(dir, path), Read); b != nil || !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v; want %v", path, b, err, want)
		}
	}
}

func TestFindingAnAccount(t *testing.T) {
	for name, tc := range map[string]struct {
		user, group string
		more        []string
		uid, gid    uint32
		groups      []uint32
	}{
		"a name":             {user: "root"},
		"a number":           {user: "0"},
		"another group":      {user: "root", group: "54321", gid: someone, groups: []uint32{0}},
		"more groups":        {user: "root", more: []string{"54321", "54322", "54321"}, groups: []uint32{someone, other}},
		"a group by name":    {user: "nobody", group: "root", uid: 65534},
		"more groups, named": {user: "root", group: "54321", more: []string{"root"}, gid: someone, groups: []uint32{0}},
	} {
		a, err := Find(t.Context(), tc.user, tc.group, tc.more)
		if err != nil || a.UID != tc.uid || a.GID != tc.gid {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		for _, gid := range tc.groups {
			if !slices.Contains(a.Groups, gid) {
				t.Errorf("%s: %+v lacks group %d", name, a, gid)
			}
		}
	}
	for _, tc := range [][2]string{{"no-such-user", ""}, {"root", "no-such-group"}} {
		if a, err := Find(t.Context(), tc[0], tc[1], nil); err == nil {
			t.Errorf("%q is %+v", tc, a)
		}
	}
}

// A user of a directory is found by what the host's name service says.
func TestAnAccountOfADirectory(t *testing.T) {
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "getent"), []byte("#!/bin/sh\ncase $1 in passwd) echo $2:x:54321:54322:Some One:/home:/bin/sh ;; *) echo $2:x:54323: ;; esac\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if _, err := exec.LookPath("getent"); err != nil {
		t.Fatal(err)
	}
	a, err := Find(t.Context(), "someone-else", "", []string{"a-group"})
	if err != nil || a.UID != someone || a.GID != other || len(a.Groups) != 1 || a.Groups[0] != 54323 {
		t.Errorf("%+v, %v", a, err)
	}
}
