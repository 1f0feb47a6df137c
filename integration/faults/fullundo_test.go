//go:build hosts

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/sample"
	"teleport-update/integration/trace"
)

// fullUndo is a change of version on whose host one file system becomes full, and what happens next while it is.
type fullUndo struct {
	crowded
	at   point  // of the change, at which the file system becomes full
	then string // one of fullThen
}

// fullThen are the ways in which a change goes on while a file system is full.
var fullThen = []string{"the run goes on", "killed, the next run", "cut off, the next boot"}

func (f fullUndo) String() string {
	return fmt.Sprintf("no %s on the %s of the %s at %v, %s", f.what, f.kind, f.side, f.at, f.then)
}

// fullScenes are the changes of version with an undoing of their own.
var fullScenes = []string{"update", "downgrade", "roll-forward", "rollback", "enable over existing binaries"}

// A file system that becomes full in the middle of a change is not in the way of its undoing: the version before is back on its database
// while the file system is still full, after a run, a kill and a boot alike. Without FAULTS=all, each scene has each file system on one of
// its kinds, and each way to go on at one point.
func TestAFileSystemThatBecomesFullKeepsNoVersionFromGoingBack(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("small file systems need root (CI=true)")
		}
		t.Skip("SKIPPED, nothing was tested: small file systems need root")
	}
	s := &sweep{t: t, test: t.Name(), some: sample.Within(budget)}
	defer s.report("file systems that became full")
	updater, err := host.Build(t.Context(), host.Updater())
	if err != nil {
		t.Fatal(err)
	}
	for i, scene := range slices.DeleteFunc(s.scenes(), func(scene Scene) bool { return !slices.Contains(fullScenes, scene.Name) }) {
		for k, kind := range []string{"tmpfs", "ext4"} {
			for n, side := range []string{"data", "links", "programs"} {
				if whole || (i+k+n)%2 == 0 {
					s.fillUp(updater, scene, kind, side)
				}
			}
		}
	}
}

// fillUp plays one scene with one side of the host on a file system that becomes full.
func (s *sweep) fillUp(updater string, scene Scene, kind, side string) {
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
	points, err := stage.openPoints(s.t)
	if err != nil {
		s.t.Error(err)
		return
	}
	var cases []fullUndo
	points = thin(points, 8)
	for _, what := range []string{"inodes", "bytes"} {
		for _, then := range fullThen {
			of := points
			if !whole {
				turn := (len(cases) + int(sample.Seed()%8)) % len(points)
				of = points[turn:][:1]
			}
			for _, at := range of {
				cases = append(cases, fullUndo{crowded{kind: kind, side: side, what: what}, at, then})
			}
		}
	}
	s.some.Among(len(cases))
	for _, c := range cases {
		if *pointFlag != "" && c.at.String() != *pointFlag {
			continue
		}
		if !s.some.Next() {
			return
		}
		problems, err := stage.undoneFull(s.t, c, mount)
		if err != nil {
			s.t.Errorf("scene %q, %v: %v", scene.Name, c, err)
			return
		}
		s.points.Add(1)
		s.violated(scene, c.String(), problems, "-point", c.at.String())
	}
}

// openPoints lists the points of a scene's run between which its journal is there.
func (s *Stage) openPoints(t *testing.T) (points []point, err error) {
	_, err = trace.Run(t.Context(), s.Command(s.Args(s.World)...), func(call trace.Call) trace.Action {
		if len(s.Closed()) > 0 {
			points = append(points, point{call.Index, call.Exit})
		}
		return trace.GoOn()
	})
	if err != nil {
		return nil, err
	}
	return points, s.Restore()
}

// undoneFull has the file system become full, goes on, and returns what is wrong then, and once there is room again.
func (s *Stage) undoneFull(t *testing.T, c fullUndo, mount string) (problems []string, err error) {
	if err := s.Restore(); err != nil {
		return nil, err
	}
	var hit trace.Call
	var release func() error
	var full error
	command := s.Command(s.Args(s.World)...)
	command.At = c.at.index
	r, err := trace.Run(t.Context(), command, func(call trace.Call) trace.Action {
		if call.Exit != c.at.exit {
			return trace.GoOn()
		}
		hit = call
		if c.then != fullThen[0] {
			return trace.Kill()
		}
		release, full = fill(c.crowded, mount)
		return trace.GoOn()
	})
	if err != nil {
		return nil, err
	}
	if release == nil {
		release, full = fill(c.crowded, mount)
	}
	if full != nil {
		return nil, full
	}
	said := string(r.Stderr)
	boot := c.then == fullThen[2]
	if c.then != fullThen[0] {
		args := []string{"recover"}
		if boot {
			args = append(args, "--boot")
		}
		ran, err := s.Run(t.Context(), args...)
		if err != nil {
			return nil, err
		}
		said = ran.Output
	}
	problems = s.Whole()
	if phase := s.phase(); len(problems) == 0 && s.isBack(phase) != nil {
		problems = append(problems, s.isBack(phase).Error())
	}
	if len(problems) > 0 {
		problems = append(problems, fmt.Sprintf("at %v: %s", hit, said))
	}
	if err := release(); err != nil {
		return nil, err
	}
	more, err := s.aftermath(t.Context(), boot, true)
	return append(problems, more...), err
}

// phase is that of the open journal, empty without one.
func (s *Stage) phase() string {
	var j struct{ Phase string }
	data, err := os.ReadFile(filepath.Join(s.Versions(), "journal.json"))
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err != nil {
		return ""
	}
	return j.Phase
}

// isBack returns an error if a change that is not proven is not undone.
func (s *Stage) isBack(phase string) error {
	got, err := s.Look()
	switch {
	case err != nil:
		return err
	case phase == "", phase == "proven", phase == "replacing", got == s.Before:
		return nil
	}
	return fmt.Errorf("the change is %s and not undone: %v; the version before has %v", phase, got, s.Before)
}

// smallWorld is a World with one side on a small file system of its own; nil if the sample is over.
func (s *sweep) smallWorld(updater, kind, side string) (w *World, mount string) {
	s.t.Helper()
	if s.some.Over() {
		s.notBegun++
		return nil, ""
	}
	dir := scratch(s.t)
	mount = filepath.Join(dir, "small")
	o := Options{Updater: updater, Dir: filepath.Join(dir, "world")}
	for _, d := range []string{mount, o.Dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	mountSmall(s.t, kind, filepath.Join(dir, "image"), mount)
	switch side {
	case "data":
		o.Data = filepath.Join(mount, "data")
	case "programs":
		o.Programs = filepath.Join(mount, "programs")
	case "links":
		o.Links, o.Units = filepath.Join(mount, "links"), filepath.Join(mount, "units")
	}
	w, err := New(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return w, mount
}
