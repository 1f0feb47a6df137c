package installer

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
)

// calmHost is a host whose timer has found nothing to do.
type calmHost struct {
	*shelf
	w    *world
	root string
}

func newCalmHost(t *testing.T) *calmHost {
	w, s := newWorld(t), newShelf(t)
	h := &calmHost{shelf: s, w: w, root: filepath.Dir(s.Paths.DataDir)}
	w.wants = find.Answer{Version: "1.0.0", Edition: version.OSS}
	must(t, os.RemoveAll(filepath.Join(s.Paths.Versions(), "1.0.0")))
	s.Paths.ProgramsDir = filepath.Join(h.root, "programs")
	s.Store.Programs = s.Paths.ProgramsDir
	s.has("1.0.0")()
	writeFile(t, s.Paths.AgentConfig, "teleport: {}\n")
	writeFile(t, filepath.Join(s.Paths.DataDir, "host_uuid"), "00000001-0000-4000-8000-000000000000\n")
	must(t, (&state.History{}).Add(state.Ended{Time: noon}, s.Paths.History()))
	s.c.Spec.Proxy, s.c.Spec.Enabled = w.url, true
	s.save()
	h.ready()
	for range 2 { // the first one links the version
		h.run()
	}
	if _, err := os.Stat(h.Paths.Settled()); err != nil {
		t.Fatal("a run that found nothing to do left no record: ", err)
	}
	return h
}

// ready makes of an Installer the one that the timer's unit starts.
func (h *calmHost) ready() {
	h.Paths.RunDir = filepath.Join(h.root, "run")
	h.T.Setenv("RUNTIME_DIRECTORY", h.Paths.RunDir)
	h.Installer.Log = slog.New(slog.NewTextHandler(io.Discard, nil)) // which counts
	h.Scheduled, h.Now, h.BootID = true, time.Now, procfs.BootID
	h.Connect = func(context.Context) (transaction.Agent, error) {
		return noAgent{seen{sight: transaction.Sight{State: state.AgentUnknown}}}, nil
	}
}

// noAgent is that of a host without systemd.
type noAgent struct{ seen }

func (noAgent) DaemonReload(context.Context) error { return nil }

// run is a whole run of the timer.
func (h *calmHost) run() {
	h.Helper()
	log := h.Installer.Log
	must(h.T, h.Update(h.Context(), UpdateOptions{}))
	h.Settle(h.Context(), "update")
	h.Installer.Log = log
}

func (h *calmHost) looks() bool {
	return QuickLook(h.Context(), h.Paths.RunDir, "test", slog.New(slog.DiscardHandler))
}

func (h *calmHost) record() settled {
	h.Helper()
	s, ok := loadSettled(h.Paths.Settled())
	if !ok {
		h.Fatal("there is no record")
	}
	return s
}

func (h *calmHost) leave(s settled) { must(h.T, state.WriteForRoot(h.Paths.Settled(), s.encode())) }

func withoutTime(summary []byte) string {
	lines := slices.DeleteFunc(strings.Split(string(summary), "\n"), func(line string) bool { return strings.Contains(line, `"written_at"`) })
	return strings.Join(lines, "\n")
}

// change is something that somebody does to a path, and undoes.
type change struct {
	name   string
	do     func(path string) error
	undo   func(path string) error
	absent bool // it is for a path where nothing is
	file   bool // it is for a file alone
	folder bool // it is for a folder alone
	placed bool // it is seen of a folder on the way, too
}

func changes(aside string) []change {
	nothing := func(string) error { return nil }
	toggle := func(bit fs.FileMode) func(string) error {
		return func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Chmod(path, info.Mode().Perm()^bit)
		}
	}
	away := func(path string) error { return os.Rename(path, aside) }
	back := func(path string) error {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return os.Rename(aside, path)
	}
	in := func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }
	return []change{
		{name: "made", do: in, undo: os.Remove, absent: true},
		{name: "written in its place, of the same length", file: true, undo: nothing, do: func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("x"), 0)
			return err
		}},
		{name: "longer", file: true, do: func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()+1)
		}, undo: nothing},
		{name: "touched, with its old time", do: func(path string) error {
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			at := unix.NsecToTimespec(info.ModTime().UnixNano())
			return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
		}, undo: nothing},
		{name: "open to others", do: toggle(0o002), undo: toggle(0o002), placed: true},
		{name: "gone", do: away, undo: func(path string) error { return os.Rename(aside, path) }, placed: true},
		{name: "a link to what it was", do: func(path string) error {
			if err := away(path); err != nil {
				return err
			}
			return os.Symlink(aside, path)
		}, undo: back, placed: true},
		{name: "another of the same name", do: func(path string) error {
			if err := away(path); err != nil {
				return err
			}
			return exec.Command("cp", "-a", aside, path).Run()
		}, undo: back, placed: true},
		{name: "a new file in it", folder: true, do: func(path string) error { return in(path + "/new") }, undo: func(path string) error { return os.Remove(path + "/new") }},
	}
}

func (c change) fits(p premise) bool {
	info, err := os.Lstat(p.Path)
	link := err == nil && info.Mode()&fs.ModeSymlink != 0
	switch {
	case err != nil || c.absent:
		_, up := os.Stat(filepath.Dir(p.Path))
		return err != nil && c.absent && up == nil
	case p.Care == placed:
		return c.placed
	case p.Care == listed:
		return c.placed || c.folder
	case link:
		return !c.file && !c.folder && c.name != "open to others"
	}
	return (!c.file || info.Mode().IsRegular()) && (!c.folder || info.IsDir())
}
