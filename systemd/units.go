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
// Unit files and enablement are written durably, by this package and not by
// "systemctl enable": that one syncs nothing, and a power cut takes the
// enablement away.
type Units struct {
	UnitDir   string // where unit files go; empty: layout.UnitDir
	ConfigDir string // where units are enabled; empty: layout.ConfigDir
	Binary    string // the updater that the units run
	LinkDir   string // empty: layout.LinkDir
	DataDir   string // empty: layout.DataDir
	Programs  string // where the programs of versions are; empty: where the data folder says
	Agent     string // the agent's unit; empty: layout.AgentUnit
	// PackageDirs are where the units of packages are; nil: /usr/lib/systemd/system
	// and /lib/systemd/system. A unit that is there is used instead of one in
	// UnitDir, unless a folder is not the usual one.
	PackageDirs []string
	// RecoveryOnly leaves service and timer out of it: those of their names are another
	// updater's, see OthersTimer.
	RecoveryOnly bool
	// EnableTimer has Write enable a timer that somebody disabled. Without it such a timer stays as it
	// is, and is no problem: Write enables only a timer whose unit was not there before.
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

// Write writes the units that no package brought, and enables all of them, but for EnableTimer; systemd
// has to be told, see Conn.StartTimer. What is in order already is not touched: it
// reports whether anything was changed.
//
// A file in UnitDir that is not the updater's own is an error; nothing is changed
// then.
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

// Erase disables the units and removes those that Write wrote; somebody else's
// files of these names stay.
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

// Folders are those that Write and Erase change something in.
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

// Problems tells what is not as Write would leave it, nothing if all is well.
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

// Overruled tells which unit files of an administrator systemd uses instead, which Write
// leaves alone. A timer that is masked is a person's wish, and no fault.
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

// sameFile reports whether two names lead to one file: a folder of units may have several.
func sameFile(a, b string) bool {
	one, err1 := os.Stat(a)
	other, err2 := os.Stat(b)
	return a == b || err1 == nil && err2 == nil && os.SameFile(one, other)
}

// A place is where one unit is and where it is enabled.
type place struct {
	UnitFile
	packaged string // the package's file, empty if there is none
	own      string // the file that Write writes without a package's
	present  []byte // what own holds; nil if there is none
	foreign  bool   // and that is somebody else's
	wants    string // the link that enables it; empty if nothing needs to
	disabled bool   // somebody took that link away, and may have it so
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

// readUnit reads a unit file. What is no file, or larger than any unit, is
// somebody else's, whatever it holds; it is neither waited for nor read to its
// end.
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
		// Ours would come before the package's, and stay as it is for ever.
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

// remove disables the unit before it takes the file away, so that no link is left
// that leads nowhere.
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

// removeOwn takes the file away, and the folder of a drop-in, in which an administrator may have others.
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
