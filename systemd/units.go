package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// The usual folders. Only others are named on the command lines in the units.
const (
	DefaultDataDir   = "/var/lib/teleport"
	DefaultLinkDir   = "/usr/local/bin"
	DefaultUnitDir   = "/usr/local/lib/systemd/system"
	DefaultConfigDir = "/etc/systemd/system"
)

// Units are the updater's own units: a service that runs one update, a timer that
// starts it every ten minutes, and a service that repairs the files of an
// interrupted update at boot, before the agent starts.
//
// Unit files and enablement are written durably, by this package and not by
// "systemctl enable": that one syncs nothing, and a power cut takes the
// enablement away.
type Units struct {
	UnitDir   string // where unit files go; empty: DefaultUnitDir
	ConfigDir string // where units are enabled; empty: DefaultConfigDir
	Binary    string // the updater that the units run
	LinkDir   string // empty: DefaultLinkDir
	DataDir   string // empty: DefaultDataDir
	// PackageDirs are where the units of packages are; nil: /usr/lib/systemd/system
	// and /lib/systemd/system. A unit that is there is used instead of one in
	// UnitDir, unless a folder is not the usual one.
	PackageDirs []string
}

func (u Units) withDefaults() Units {
	for _, d := range []struct {
		field *string
		usual string
	}{
		{&u.UnitDir, DefaultUnitDir},
		{&u.ConfigDir, DefaultConfigDir},
		{&u.LinkDir, DefaultLinkDir},
		{&u.DataDir, DefaultDataDir},
	} {
		if *d.field == "" {
			*d.field = d.usual
		}
	}
	if u.PackageDirs == nil {
		u.PackageDirs = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}
	}
	return u
}

// Install writes the units that no package brought, enables them and, if c is not
// nil, makes systemd read them and starts the timer. What is in order already is
// not touched.
//
// A file in UnitDir that is not the updater's own is an error; nothing is changed
// then. A timer that an administrator has masked stays so.
func (u Units) Install(ctx context.Context, c *Conn) error {
	u = u.withDefaults()
	places, err := u.places()
	if err != nil {
		return err
	}
	for _, p := range places {
		if p.foreign {
			return fmt.Errorf("%s is not teleport-update's own unit: move it away first", p.own)
		}
	}
	changed := false
	for _, p := range places {
		did, err := p.install()
		if err != nil {
			return fmt.Errorf("install %s: %w", p.Name, err)
		}
		changed = changed || did
	}
	if c == nil {
		return nil
	}
	timer, err := c.Unit(ctx, timerUnit)
	if err != nil {
		return err
	}
	if changed || timer.NeedDaemonReload || timer.LoadState != "loaded" {
		if err := c.DaemonReload(ctx); err != nil {
			return err
		}
	}
	if timer.LoadState == "masked" || timer.ActiveState == "active" && !changed {
		return nil
	}
	return c.Start(ctx, timerUnit)
}

// Remove stops the timer if c is not nil, disables the units and removes those
// that Install wrote; somebody else's files of these names stay. A run of the
// updater that the timer has started goes on.
func (u Units) Remove(ctx context.Context, c *Conn) error {
	u = u.withDefaults()
	places, err := u.places()
	if err != nil {
		return err
	}
	if c != nil {
		timer, err := c.Unit(ctx, timerUnit)
		if err != nil {
			return err
		}
		if timer.LoadState == "loaded" {
			if err := c.Stop(ctx, timerUnit); err != nil {
				return err
			}
			c.forgetTicks(ctx)
		}
	}
	for _, p := range places {
		if err := p.remove(); err != nil {
			return fmt.Errorf("remove %s: %w", p.Name, err)
		}
	}
	if c == nil {
		return nil
	}
	return c.DaemonReload(ctx)
}

// forgetTicks removes the stamp of the timer's last run. It is a trace, no more:
// systemd before 243 cannot do it.
func (c *Conn) forgetTicks(ctx context.Context) {
	_, _ = do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
		return struct{}{}, l.calls.Object("org.freedesktop.systemd1", managerPath).
			CallWithContext(ctx, "org.freedesktop.systemd1.Manager.CleanUnit", 0, timerUnit, []string{"state"}).Store()
	})
}

// Folders are those that Install and Remove change something in.
func (u Units) Folders() []string {
	u = u.withDefaults()
	dirs := []string{u.UnitDir}
	files, err := u.Files()
	if err != nil {
		return dirs
	}
	for _, f := range files {
		if f.WantedBy != "" {
			dirs = append(dirs, filepath.Join(u.ConfigDir, f.WantedBy+".wants"))
		}
	}
	return dirs
}

// Problems tells what is not as Install would leave it, nothing if all is well.
func (u Units) Problems() []string {
	u = u.withDefaults()
	places, err := u.places()
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	for _, p := range places {
		problems = append(problems, p.problems()...)
	}
	return problems
}

// A place is where one unit is and where it is enabled.
type place struct {
	UnitFile
	packaged string // the package's file, empty if there is none
	own      string // the file that Install writes without a package's
	present  []byte // what own holds; nil if there is none
	foreign  bool   // and that is somebody else's
	wants    string // the link that enables it; empty if nothing needs to
	above    string // the file of an administrator that systemd would use instead
}

// path is the unit file in use.
func (p place) path() string {
	if p.packaged != "" {
		return p.packaged
	}
	return p.own
}

func (u Units) places() ([]place, error) {
	files, err := u.Files()
	if err != nil {
		return nil, err
	}
	usual := u.DataDir == DefaultDataDir && u.LinkDir == DefaultLinkDir && u.UnitDir == DefaultUnitDir
	var places []place
	for _, f := range files {
		p := place{UnitFile: f, own: filepath.Join(u.UnitDir, f.Name)}
		for _, dir := range u.PackageDirs {
			path := filepath.Join(dir, f.Name)
			if _, err := os.Stat(path); err == nil && usual && p.packaged == "" {
				p.packaged = path
			}
		}
		p.present, err = readUnit(p.own)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		p.foreign = p.present != nil && !bytes.HasPrefix(p.present, []byte(mark+"\n"))
		if f.WantedBy != "" {
			p.wants = filepath.Join(u.ConfigDir, f.WantedBy+".wants", f.Name)
		}
		p.above = filepath.Join(u.ConfigDir, f.Name)
		places = append(places, p)
	}
	return places, nil
}

// readUnit reads a unit file. What is no file, or larger than any unit, is
// somebody else's, whatever it holds; it is neither waited for nor read to its
// end.
func readUnit(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return []byte{}, nil
	}
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// install enables the unit only after its file is on stable storage.
func (p place) install() (changed bool, err error) {
	switch {
	case p.packaged != "" && p.present != nil:
		// Ours would come before the package's, and stay as it is for ever.
		if err := durable.Remove(p.own); err != nil {
			return false, err
		}
		changed = true
	case p.packaged == "" && !p.written():
		if err := durable.MkdirAll(filepath.Dir(p.own), 0o755); err != nil {
			return false, err
		}
		if err := durable.WriteFile(p.own, p.Content, 0o644); err != nil {
			return false, err
		}
		changed = true
	}
	if p.enabled() {
		return changed, nil
	}
	if err := durable.MkdirAll(filepath.Dir(p.wants), 0o755); err != nil {
		return false, err
	}
	if err := durable.RelinkNoSync(p.path(), p.wants); err != nil {
		return false, err
	}
	return true, durable.SyncDir(filepath.Dir(p.wants))
}

// remove disables the unit before it takes the file away, so that no link is left
// that leads nowhere.
func (p place) remove() error {
	if p.foreign {
		return nil
	}
	for _, path := range []string{p.wants, p.own} {
		if path == "" {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := durable.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func (p place) written() bool {
	info, err := os.Lstat(p.own)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm() == 0o644 && bytes.Equal(p.present, p.Content)
}

func (p place) enabled() bool {
	if p.wants == "" {
		return true
	}
	// Not by name: a package may have enabled it through /lib, a link to /usr/lib.
	wanted, err1 := os.Stat(p.wants)
	unit, err2 := os.Stat(p.path())
	return err1 == nil && err2 == nil && os.SameFile(wanted, unit)
}

func (p place) problems() []string {
	var problems []string
	switch {
	case p.foreign:
		return []string{p.own + " is not teleport-update's own unit"}
	case p.packaged != "" && p.present != nil:
		problems = append(problems, fmt.Sprintf("%s stands in front of %s", p.own, p.packaged))
	case p.packaged != "":
	case p.present == nil:
		problems = append(problems, p.own+" is missing")
	case !p.written():
		problems = append(problems, p.own+" is not as this version of teleport-update writes it")
	}
	if _, err := os.Lstat(p.above); err == nil && p.above != p.path() {
		problems = append(problems, fmt.Sprintf("%s stands in front of %s", p.above, p.path()))
	}
	if !p.enabled() {
		problems = append(problems, fmt.Sprintf("%s is not enabled: %s does not lead to %s", p.Name, p.wants, p.path()))
	}
	return problems
}
