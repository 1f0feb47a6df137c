package survey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/procfs"
	"teleport-update/internal/regular"
	"teleport-update/systemd"
)

// Own are the updater's own units: their files, and what systemd has loaded of them. The units are
// zero if no systemd runs.
type Own struct {
	Problems  []string // files that are not as they should be, and what enables them
	Overruled []string // files of an administrator's that systemd uses instead
	Others    bool     // the timer's name is another updater's, and ours is left out
	Timer     systemd.Unit
	Run       systemd.Unit // the service that the timer starts
	Recovery  systemd.Unit
}

// Own looks at the updater's own units.
func (s *Survey) Own(ctx context.Context) (Own, error) {
	return s.own.get(func() (Own, error) {
		u := s.from.Updater.OwnUnits()
		o := Own{Problems: u.Problems(), Overruled: u.Overruled(), Others: u.RecoveryOnly}
		// The timer first: if it has started a run by then, the later looks show the job, the start or the end of that run.
		for _, of := range []struct {
			name string
			into *systemd.Unit
		}{{u.Timer(), &o.Timer}, {u.Service(), &o.Run}, {u.Recovery(), &o.Recovery}} {
			unit, err := s.unit(ctx, of.name)
			if err != nil {
				return o, err
			}
			*of.into = unit
		}
		return o, nil
	})
}

// OtherUpdater says which other updater manages the same agent; nil if none does.
func (s *Survey) OtherUpdater() *failure.Error {
	why, _ := s.others.get(func() (*failure.Error, error) { return s.from.Updater.CheckOthersCame(), nil })
	return why
}

// Recovery says what would keep the recovery at boot from its work, as systemd has its unit; nil if nothing
// shows.
func (s *Survey) Recovery(ctx context.Context) (why *failure.Error, err error) {
	o, err := s.Own(ctx)
	if err != nil {
		return nil, err
	}
	return s.from.Updater.CheckRecovery(ctx, o.Recovery), nil
}

// RunLimit names the limit by which systemd would end a run of the timer before it has undone a version; nil without one.
func (s *Survey) RunLimit(ctx context.Context) (why *failure.Error, err error) {
	o, err := s.Own(ctx)
	if err != nil || o.Others {
		return nil, err
	}
	return s.from.Updater.CheckLimits(o.Run), nil
}

// RecoveryNeeds says which unit that the recovery needs keeps systemd from starting it; nil if nothing shows. It
// asks systemd for each of them.
func (s *Survey) RecoveryNeeds(ctx context.Context) (why *failure.Error, err error) {
	o, err := s.Own(ctx)
	if err != nil {
		return nil, err
	}
	return host.CheckOwnNeeds(ctx, o.Recovery, s.unit)
}

// RunNeeds says which unit that a run of the timer needs keeps systemd from starting it; nil if nothing shows. It
// asks systemd for each of them.
func (s *Survey) RunNeeds(ctx context.Context) (why *failure.Error, err error) {
	o, err := s.Own(ctx)
	if err != nil {
		return nil, err
	}
	return host.CheckOwnNeeds(ctx, o.Run, s.unit)
}

// Rescuer runs the program that the recovery at boot runs, by its unit's file and as systemd has it loaded, and says why that cannot be
// counted on. It takes some 20 ms of CPU, so runs of the timer do without it.
func (s *Survey) Rescuer(ctx context.Context) error {
	_, err := s.rescuer.get(func() (string, error) {
		program, _, err := s.from.Updater.Rescuer(ctx)
		if err == nil {
			o, blind := s.Own(ctx) // other checks report an error of this
			if loaded := o.Recovery.ExecStart; blind == nil && loaded != "" && loaded != program {
				_, err = host.LoadedRescuer(ctx, o.Recovery) // a drop-in names another one
			}
		}
		return program, err
	})
	return err
}

// Late is a folder of units that is not there when systemd reads units at boot.
type Late struct {
	Dir   string
	Mount string // where the file system with Dir is mounted
}

func (l Late) String() string {
	return fmt.Sprintf("%s is on a file system of its own (%s), which is mounted after systemd has read its units at boot", l.Dir, l.Mount)
}

// Late returns the folders of the updater's and the agent's units that are not there at boot.
func (s *Survey) Late() ([]Late, error) {
	return s.boot.get(func() ([]Late, error) {
		dir := s.from.Paths.UnitDir
		mount, err := LateMount(s.from.Processes.MountAt, s.from.Boot, dir)
		if err != nil || mount == "" {
			return nil, err
		}
		return []Late{{dir, mount}}, nil
	})
}

// Boot holds the places that say what systemd mounts when it boots.
type Boot struct {
	// Containers are files; in a container, one of them is there.
	Containers []string
	Fstab      string
	UnitDirs   []string // the highest rank first
}

// HostBoot returns the Boot of this host.
func HostBoot() Boot {
	return Boot{
		// Not /.dockerenv, which is left in an image that a container was exported to.
		Containers: []string{"/run/systemd/container", "/run/.containerenv"},
		Fstab:      "/etc/fstab",
		UnitDirs:   systemd.UnitPath(),
	}
}

// LateMount returns the mount that has a folder and is not there when systemd reads its units at boot; empty without
// one. / is there, and so are /usr and /etc, if they are mounts at all: an initial RAM disk mounts them. /dev is the
// kernel's, and systemd mounts it first. In a container, file systems that systemd does not mount were mounted before
// systemd began, by the program that runs the container (volumes).
func LateMount(mountAt func(path string) (string, error), boot Boot, dir string) (string, error) {
	mount, err := mountAt(dir)
	if err != nil {
		return mount, err
	}
	switch mount {
	case "", "/", "/usr", "/dev", filepath.Dir(filepath.Dir(layout.ConfigDir)):
		return "", nil
	}
	contained, err := boot.contained()
	if err != nil || !contained {
		return mount, err
	}
	mounts, err := boot.mounts(mount)
	if err != nil || mounts {
		return mount, err
	}
	return "", nil
}

// contained reports whether this host is a container.
func (b Boot) contained() (bool, error) {
	for _, file := range b.Containers {
		_, err := os.Stat(file)
		if err == nil || !missing(err) {
			return err == nil, err
		}
	}
	return false, nil
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// mounts reports whether systemd has something to mount at a path, by fstab(5) or a unit.
func (b Boot) mounts(path string) (bool, error) {
	if b.Fstab != "" {
		text, err := regular.Read(b.Fstab, maxFstab, 0)
		if err != nil && !missing(err) {
			return false, err
		}
		if slices.Contains(mountPoints(string(text)), path) {
			return true, nil
		}
	}
	for _, dir := range b.UnitDirs {
		info, err := os.Stat(filepath.Join(dir, systemd.MountUnit(path)))
		if missing(err) {
			continue
		}
		// A mask is no file with content, and counts before the units of lower folders.
		return err == nil && info.Mode().IsRegular() && info.Size() > 0, err
	}
	return false, nil
}

// maxFstab is more than any fstab has, in bytes.
const maxFstab = 1 << 20

// mountPoints returns the paths at which an fstab has file systems, without links. A file system that is mounted only by hand is
// among them: it is not there at boot, either.
func mountPoints(fstab string) (all []string) {
	for line := range strings.Lines(fstab) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || !filepath.IsAbs(fields[1]) {
			continue
		}
		path := filepath.Clean(procfs.Unescaped(fields[1]))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		all = append(all, path)
	}
	return all
}
