//go:build hosts

package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/integration/host"
	"teleport-update/integration/sample"
)

// crowded is a host of which one side is on a small file system that is almost
// full, so that a run meets real errors of a full disk, at one place or another.
type crowded struct {
	kind string // of the file system: "tmpfs", "ext4"
	side string // "data" or "links"; units go with the links
	what string // what is short: "bytes" or "inodes"
	left int64  // how much of it is free
}

func (c crowded) String() string {
	return fmt.Sprintf("%s on a %s with %d %s left", c.side, c.kind, c.left, c.what)
}

// fills are the fill levels: from nothing left to just enough.
func fills() (list []crowded) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		for _, left := range []int64{0, 4 << 10, 8 << 10, 16 << 10, 24 << 10, 48 << 10} {
			list = append(list, crowded{kind, "links", "bytes", left})
		}
		for _, left := range []int64{0, 4 << 10, 64 << 10, 200 << 10, 1 << 20, 8 << 20, 9 << 20, 17 << 20, 20 << 20, 36 << 20} {
			list = append(list, crowded{kind, "data", "bytes", left})
		}
		for _, left := range []int64{0, 1, 2, 3, 4, 6} {
			list = append(list, crowded{kind, "links", "inodes", left})
		}
		for _, left := range []int64{0, 1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24} {
			list = append(list, crowded{kind, "data", "inodes", left})
		}
	}
	return list
}

// A disk that is really full, of bytes or of files, on either side, stops an
// update and harms nothing; with room again the next run goes through.
func TestAFullDiskStopsAnUpdateAndHarmsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("small file systems need root (CI=true)")
		}
		t.Skip("SKIPPED, nothing was tested: small file systems need root")
	}
	s := &sweep{t: t, test: t.Name(), some: sample.Within(budget)}
	defer s.report("full disks")
	updater, err := host.Build(t.Context(), host.Updater())
	if err != nil {
		t.Fatal(err)
	}
	for _, scene := range s.scenes() {
		switch scene.Name {
		case "enable over existing binaries", "update", "downgrade", "repair":
		default:
			continue
		}
		for _, kind := range []string{"tmpfs", "ext4"} {
			for _, side := range []string{"data", "links"} {
				s.crowd(updater, scene, kind, side)
			}
		}
	}
}

// crowd plays one scene on one file system at every fill level.
func (s *sweep) crowd(updater string, scene Scene, kind, side string) {
	s.t.Helper()
	w, mount := s.smallWorld(updater, kind, side)
	if w == nil {
		return
	}
	defer w.Close()
	stage, err := w.Play(s.t.Context(), scene)
	if err != nil {
		s.t.Error(err)
		return
	}
	var levels []crowded
	for _, c := range fills() {
		if c.kind == kind && c.side == side {
			levels = append(levels, c)
		}
	}
	levels = some(levels, 4)
	s.some.Among(len(levels))
	for _, c := range levels {
		if !s.some.Next() {
			return
		}
		problems, output, err := stage.cramped(s.t, c, mount)
		if err != nil {
			s.t.Errorf("scene %q, %v: %v", scene.Name, c, err)
			return
		}
		s.points.Add(1)
		s.violated(scene, fmt.Sprintf("%v: %s", c, output), problems)
	}
}

// cramped runs the scene where little is left, and again where there is room.
func (s *Stage) cramped(t *testing.T, c crowded, mount string) (problems []string, output string, err error) {
	if err := s.Restore(); err != nil {
		return nil, "", err
	}
	release, err := fill(c, mount)
	if err != nil {
		return nil, "", err
	}
	r, err := s.Run(t.Context(), s.Args(s.World)...)
	if err != nil {
		return nil, "", err
	}
	got, err := s.Look()
	if err != nil {
		return nil, "", err
	}
	switch {
	case r.Code == 0 && got != s.After:
		problems = append(problems, fmt.Sprintf("the exit code is 0, but %v", got))
	case r.Code != 0 && len(s.Closed()) == 0:
		problems = append(problems, s.Whole()...)
	case r.Code != 0:
		// What could not be undone for want of room is tried again, still without.
		if _, err := s.Run(t.Context(), "recover"); err != nil {
			return nil, "", err
		}
	}
	if err := release(); err != nil {
		return nil, "", err
	}
	more, err := s.aftermath(t.Context(), false, true)
	return append(problems, more...), fmt.Sprintf("exit code %d: %s", r.Code, r.Output), err
}

// mountSmall mounts a file system of 64 MiB with few inodes.
func mountSmall(t *testing.T, kind, image, at string) {
	t.Helper()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	if kind == "tmpfs" {
		run("mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=400,mode=755", "none", at)
	} else {
		run("truncate", "-s", "64M", image)
		run("mkfs.ext4", "-q", "-m", "0", "-N", "400", image)
		run("mount", "-o", "loop", image, at)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
}

// fill takes all but a little of a file system, and returns what gives it back.
func fill(c crowded, mount string) (release func() error, err error) {
	dir := filepath.Join(mount, "ballast")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	release = func() error { return os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			release()
		}
	}()
	var st unix.Statfs_t
	if c.what == "inodes" {
		for i := 0; ; i++ {
			if err := unix.Statfs(mount, &st); err != nil {
				return nil, err
			}
			if int64(st.Ffree) <= c.left {
				return release, nil
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
				return nil, err
			}
		}
	}
	f, err := os.Create(filepath.Join(dir, "bytes"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// In pieces, for a file system's own needs grow with the file.
	for size := int64(0); ; {
		if err := unix.Statfs(mount, &st); err != nil {
			return nil, err
		}
		free := int64(st.Bavail) * st.Bsize
		if free <= c.left {
			return release, nil
		}
		piece := max(min(free-c.left, 1<<20), 4096)
		if err := unix.Fallocate(int(f.Fd()), 0, size, piece); err != nil {
			return release, nil // it is as full as can be
		}
		size += piece
	}
}
