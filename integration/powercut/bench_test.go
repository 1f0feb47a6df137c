//go:build hosts

package powercut_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"teleport-update/integration/faults"
	"teleport-update/integration/powercut"
	"teleport-update/integration/trace"
)

// layout says which file systems a host has, and which of them lose what was not
// synced. The others had just written all of it when the power went.
type layout struct {
	name         string
	state, links powercut.Kind // links empty: on the same file system
	units        string        // the disk that has the unit
	lost         []string
	// The whole sweep takes every so many calls, but for those at the end, so that
	// layouts of which it does not take all do not take the same.
	stride, skip int
}

const (
	stateDisk = "state"
	linksDisk = "links"
)

var layouts = []layout{
	{"one ext4", powercut.Ext4, "", stateDisk, []string{stateDisk}, 1, 0},
	{"one xfs", powercut.XFS, "", stateDisk, []string{stateDisk}, 4, 0},
	{"state on ext4, links on xfs", powercut.Ext4, powercut.XFS, linksDisk, []string{stateDisk, linksDisk}, 8, 0},
	{"state on ext4, links on xfs, only the state is lost", powercut.Ext4, powercut.XFS, linksDisk, []string{stateDisk}, 8, 2},
	{"state and unit on xfs, links on ext4, only the links are lost", powercut.XFS, powercut.Ext4, stateDisk, []string{linksDisk}, 8, 5},
}

// bench is a host on file systems of its own, with a scene prepared on it.
type bench struct {
	*faults.Stage
	dir   string
	disks []*disk
}

// disk is a file system of the bench, and the image that each try begins with.
type disk struct {
	*powercut.Disk
	name     string
	template string
	lost     bool
}

var benches atomic.Int64

// setUp makes the host, plays the scene on it once, and keeps the file systems as
// the scene begins.
func setUp(t *testing.T, scene faults.Scene, l layout) *bench {
	t.Helper()
	b := &bench{dir: filepath.Join(scratch, fmt.Sprintf("bench%d", benches.Add(1)))}
	must(t, os.Mkdir(b.dir, 0o755))
	t.Cleanup(func() { must(t, os.RemoveAll(b.dir)) })
	b.add(t, stateDisk, l.state, l)
	if l.links != "" {
		b.add(t, linksDisk, l.links, l)
	}
	on := map[string]string{}
	for _, d := range b.disks {
		on[d.name] = d.Dir
	}
	links := b.disks[len(b.disks)-1].name
	w, err := faults.New(t.Context(), faults.Options{
		Updater: updater, Dir: b.dir,
		Data:     filepath.Join(on[stateDisk], "var"),
		Programs: filepath.Join(on[links], "opt"),
		Links:    filepath.Join(on[links], "usr", "bin"),
		Units:    filepath.Join(on[l.units], "usr", "units"),
	})
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	b.Stage, err = w.Play(t.Context(), scene)
	must(t, err)
	for _, d := range b.disks {
		must(t, d.Unmount())
		must(t, os.Rename(d.Image, d.template))
	}
	return b
}

func (b *bench) add(t *testing.T, name string, kind powercut.Kind, l layout) {
	t.Helper()
	image := filepath.Join(b.dir, name+".img")
	must(t, powercut.Format(image, kind))
	mounted, err := powercut.Mount(image, kind, filepath.Join(b.dir, name))
	must(t, err)
	d := &disk{Disk: mounted, name: name, template: image + ".template"}
	for _, lost := range l.lost {
		d.lost = d.lost || lost == name
	}
	b.disks = append(b.disks, d)
}

// fresh mounts the file systems as the scene begins.
func (b *bench) fresh() error {
	for _, d := range b.disks {
		if err := powercut.Copy(d.template, d.Image); err != nil {
			return err
		}
		if err := d.Mount(); err != nil {
			return err
		}
	}
	return nil
}

// cut cuts the power: at the same instant on all file systems, or, where some of
// them keep all they have, there last.
func (b *bench) cut() error {
	for _, d := range b.disks {
		if d.lost {
			if err := d.Cut(); err != nil {
				return err
			}
		}
	}
	return nil
}

// back is the power coming back. The host boots: with other numbers for its disks,
// it may be.
func (b *bench) back() error {
	if err := b.Boots(); err != nil {
		return err
	}
	for _, d := range b.disks {
		if err := d.Restore(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) cutAndBack() error { return errors.Join(b.cut(), b.back()) }

func (b *bench) unmount() error {
	var errs []error
	for _, d := range b.disks {
		errs = append(errs, d.Unmount())
	}
	return errors.Join(errs...)
}

// run runs the updater, which has to succeed.
func (b *bench) run(t *testing.T, args ...string) (problems []string, err error) {
	r, err := b.Run(t.Context(), args...)
	if err != nil {
		return nil, err
	}
	if r.Code != 0 {
		return []string{fmt.Sprintf("%s ended with exit code %d: %s", strings.Join(args, " "), r.Code, r.Output)}, nil
	}
	return nil, nil
}

// judge recovers a host after a cut and says what is wrong with it.
func (b *bench) judge(t *testing.T) (problems []string, err error) {
	step := func(what string, found []string) {
		for _, p := range found {
			problems = append(problems, what+": "+p)
		}
	}
	recovered := func() []string { return append(b.Whole(), b.Closed()...) }
	for _, s := range []struct {
		name     string
		args     func() []string
		look     func() []string
		afterCut func() []string
	}{
		{"the boot", func() []string { return []string{"recover", "--boot"} }, b.bootable, b.bootable},
		{"the recovery", func() []string { return []string{"recover"} }, recovered, recovered},
		{"the next run", b.next, b.converged, b.converged},
	} {
		found, err := b.run(t, s.args()...)
		if err != nil {
			return nil, err
		}
		step(s.name, append(found, s.look()...))
		if err := b.cutAndBack(); err != nil {
			return nil, err
		}
		step("after "+s.name+" and a cut", s.afterCut())
	}
	return problems, nil
}

// converged is Converged, but for kept downloads: the removal of one is not worth a
// sync, so a cut may bring it back until the next download.
func (b *bench) converged() []string {
	return slices.DeleteFunc(b.Converged(), func(p string) bool {
		return strings.Contains(p, "versions/partial/") && !strings.Contains(p, "/.staging-")
	})
}

// done says whether what the updater reported as done is done.
func (b *bench) done() []string {
	got, err := b.Look()
	if err != nil || got != b.After {
		return []string{fmt.Sprintf("after the end: %v, %v; want %v", got, err, b.After)}
	}
	return nil
}

// bootable says whether the agent that systemd starts now is one whole version
// with its database. updates.yaml may still have to follow, as long as the
// journal knows.
func (b *bench) bootable() []string {
	got, err := b.Look()
	if err != nil {
		return []string{err.Error()}
	}
	if b.To == "" {
		return b.Stays(got)
	}
	for _, whole := range []faults.State{b.Before, b.After} {
		if len(b.Closed()) > 0 {
			got.Active = whole.Active
		}
		if got == whole {
			return nil
		}
	}
	return []string{fmt.Sprintf("neither the old nor the new version, whole: %v; the old has %v; the new has %v", got, b.Before, b.After)}
}

// next is the next run that anybody would make.
func (b *bench) next() []string {
	got, err := b.Look()
	if err != nil {
		return b.Args(b.World)
	}
	return b.Again(b.Stage, got)
}

// traced runs the scene's command to its end, or until decide kills it, which is
// asked about one call alone, or about each if at is 0.
func (b *bench) traced(t *testing.T, at int, decide func(trace.Call) trace.Action) (trace.Result, error) {
	c := b.Command(b.Args(b.World)...)
	c.At = at
	return trace.Run(t.Context(), c, decide)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
