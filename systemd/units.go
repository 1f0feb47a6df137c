package systemd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teleport-update/internal/durable"
	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
)

// Units are the updater's own units: a service that runs one update, a timer that
// starts it every ten minutes, and a service that repairs the files of an
// interrupted update at boot, before the agent starts.
//
// This package writes unit files and enablement durably itself. It does not use
// "systemctl enable", which syncs nothing, so that a power cut takes the
// enablement away.
type Units struct {
	UnitDir   string // where unit files go; empty: layout.UnitDir
	ConfigDir string // where units are enabled; empty: layout.ConfigDir
	Binary    string // the updater that the units run
	LinkDir   string // empty: layout.LinkDir
	DataDir   string // empty: layout.DataDir
	Programs  string // folder of the programs of versions; empty: the data folder determines it
	Agent     string // the agent's unit; empty: layout.AgentUnit
	// PackageDirs are the folders of the units of packages; nil: /usr/lib/systemd/system and
	// /lib/systemd/system. A unit there is used instead of one in UnitDir, unless a folder is not the
	// usual one.
	PackageDirs []string
	// RecoveryOnly leaves out the service and the timer: another updater has units with their names,
	// see OthersTimer.
	RecoveryOnly bool
	// EnableTimer makes Write enable a timer that somebody disabled. Without it such a timer stays as
	// it is, and is no problem: Write enables only a timer whose unit was not there before.
	EnableTimer bool
}

func (u Units) withDefaults() Units {
	u.UnitDir = cmp.Or(u.UnitDir, layout.UnitDir)
	u.ConfigDir = cmp.Or(u.ConfigDir, layout.ConfigDir)
	u.LinkDir = cmp.Or(u.LinkDir, layout.LinkDir)
	u.DataDir = cmp.Or(u.DataDir, layout.DataDir)
	u.Agent = cmp.Or(u.Agent, layout.AgentUnit)
	if u.PackageDirs == nil {
		u.PackageDirs = layout.PackageUnitDirs
	}
	return u
}

// Write writes the units that no package brought, and enables all of them, but see EnableTimer;
// systemd has to read them, see Conn.StartTimer. It leaves units in order untouched, and
// reports whether it changed anything.
//
// A file in UnitDir that is not the updater's own is an error; Write changes
// nothing then.
func (u Units) Write() (changed bool, err error) {
	places, err := u.places()
	if err != nil {
		return false, err
	}
	for _, p := range places {
		if p.foreign {
			return false, fmt.Errorf("%s is not teleport-update's own unit: move it away first", p.own)
		}
	}
	for _, p := range places {
		did, err := p.install()
		if err != nil {
			return changed, fmt.Errorf("install %s: %w", p.Name, err)
		}
		changed = changed || did
	}
	return changed, nil
}

// Erase disables the units and removes those that Write wrote; other people's files with these
// names stay.
func (u Units) Erase() error {
	places, err := u.places()
	if err != nil {
		return err
	}
	for _, p := range places {
		if err := p.remove(); err != nil {
			return fmt.Errorf("remove %s: %w", p.Name, err)
		}
	}
	if err := u.EraseCarried(); err != nil {
		return err
	}
	if _, err := u.EraseUpdaterInfo(); err != nil {
		return err
	}
	return u.ForgetMounts()
}

// Folders returns the folders in which Write and Erase change something.
func (u Units) Folders() []string {
	u = u.withDefaults()
	dirs := []string{u.UnitDir, filepath.Dir(u.UpdaterInfoFile())}
	for _, f := range u.limitFiles() {
		dirs = append(dirs, filepath.Join(u.UnitDir, filepath.Dir(f.Name)))
	}
	for _, f := range u.named() {
		if f.WantedBy != "" {
			dirs = append(dirs, filepath.Join(u.ConfigDir, f.WantedBy+".wants"))
		}
	}
	return dirs
}

// Problems describes each difference from the state that Write makes; otherwise empty.
func (u Units) Problems() []string {
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

// Overruled describes the unit files of an administrator that systemd uses instead, and that Write
// leaves alone. A masked timer is a person's wish, and no fault.
func (u Units) Overruled() []string {
	places, err := u.places()
	if err != nil {
		return nil // a problem
	}
	var all []string
	for _, p := range places {
		if _, err := os.Lstat(p.above); err != nil || sameFile(p.above, p.path()) {
			continue
		}
		masked, _ := maskIn([]string{filepath.Dir(p.above)}, p.Name)
		switch {
		case masked == "":
			all = append(all, fmt.Sprintf("%s takes precedence over %s: remove it, or turn it into a drop-in, `systemctl edit %s`", p.above,
				p.path(), p.Name))
		case p.Name != u.Timer():
			all = append(all, fmt.Sprintf("%s is masked: `%s`", p.Name, Unmask(p.Name)))
		}
	}
	return all
}

// sameFile reports whether two names lead to one file: a folder of units may have several names.
func sameFile(a, b string) bool {
	one, err1 := os.Stat(a)
	other, err2 := os.Stat(b)
	return a == b || err1 == nil && err2 == nil && os.SameFile(one, other)
}

// A place is the location of a unit and of its enablement.
type place struct {
	UnitFile
	packaged string // the package's file, empty if there is none
	own      string // the file that Write writes without a package's
	present  []byte // what own holds; nil if there is none
	foreign  bool   // present belongs to somebody else
	wants    string // the link that enables it; empty if it needs none
	disabled bool   // somebody took that link away, and it may stay away
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
	u = u.withDefaults()
	files, err := u.Files()
	if err != nil {
		return nil, err
	}
	usual := u.Programs == "" && u.DataDir == layout.DataDir && u.LinkDir == layout.LinkDir && u.UnitDir == layout.UnitDir
	var places []place
	for _, f := range files {
		if u.RecoveryOnly && (f.Name == u.Timer() || strings.HasPrefix(f.Name, u.Service())) {
			continue
		}
		p := place{UnitFile: f, own: filepath.Join(u.UnitDir, f.Name)}
		for _, dir := range u.PackageDirs {
			path := filepath.Join(dir, f.Name)
			if _, err := os.Stat(path); err == nil && usual && p.packaged == "" {
				p.packaged = path
			}
		}
		if p.present, p.foreign, err = readDropIn(p.own); err != nil {
			return nil, err
		}
		if f.WantedBy != "" {
			p.wants = filepath.Join(u.ConfigDir, f.WantedBy+".wants", f.Name)
		}
		if f.Name == u.Timer() && !u.EnableTimer && (p.packaged != "" || p.present != nil) {
			_, err := os.Lstat(p.wants)
			p.disabled = errors.Is(err, fs.ErrNotExist)
		}
		p.above = filepath.Join(u.ConfigDir, f.Name)
		places = append(places, p)
	}
	return places, nil
}

// readUnit reads a unit file. A path that is no file, or a file larger than any unit, belongs to
// somebody else: its content is not read, and readUnit returns an empty text.
func readUnit(path string) ([]byte, error) {
	data, err := regular.Read(path, 64<<10, 0)
	if _, unsuitable := errors.AsType[*regular.UnsuitableError](err); unsuitable {
		return []byte{}, nil
	}
	return data, err
}

// install enables the unit only after its file is on stable storage.
func (p place) install() (changed bool, err error) {
	switch {
	case p.packaged != "" && p.present != nil:
		// Our file would override the package's for ever.
		if err := p.removeOwn(); err != nil {
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

// remove disables the unit before it removes the file, so that it leaves no dangling link.
func (p place) remove() error {
	if p.foreign {
		return nil
	}
	if p.wants != "" && isThere(p.wants) {
		if err := durable.Remove(p.wants); err != nil {
			return err
		}
	}
	if !isThere(filepath.Dir(p.own)) {
		return nil
	}
	return p.removeOwn()
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// removeOwn removes the file, and the folder of a drop-in if it is empty: an administrator may have other drop-ins there.
func (p place) removeOwn() error {
	if isThere(p.own) {
		if err := durable.Remove(p.own); err != nil {
			return err
		}
	}
	if strings.Contains(p.Name, "/") {
		return durable.RemoveEmpty(filepath.Dir(p.own))
	}
	return nil
}

func (p place) written() bool {
	info, err := os.Lstat(p.own)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm() == 0o644 && bytes.Equal(p.present, p.Content)
}

// enabled reports whether the unit is enabled as far as it has to be.
func (p place) enabled() bool {
	if p.wants == "" || p.disabled {
		return true
	}
	// Not by name: a package may have enabled it through /lib, a link to /usr/lib.
	return sameFile(p.wants, p.path())
}

func (p place) problems() []string {
	var problems []string
	switch {
	case p.foreign:
		return []string{p.own + " is not teleport-update's own unit"}
	case p.packaged != "" && p.present != nil:
		problems = append(problems, fmt.Sprintf("%s takes precedence over %s", p.own, p.packaged))
	case p.packaged != "":
	case p.present == nil:
		problems = append(problems, p.own+" is missing")
	case !p.written():
		problems = append(problems, p.own+" is not as this version of teleport-update writes it")
	}
	if !p.enabled() {
		problems = append(problems, fmt.Sprintf("%s is not enabled: %s does not lead to %s", p.Name, p.wants, p.path()))
	}
	return problems
}
