package systemd

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	sdbus "github.com/coreos/go-systemd/v22/dbus"

	"teleport-update/internal/regular"
)

// Packaged reports whether a package brought the updater's units, and with them
// the program that they run.
func (u Units) Packaged() bool {
	return u.some(func(p place) bool { return p.packaged != "" })
}

// InPackageDir returns the first of the updater's units that is in UnitDir and that Write would write over, if packages have
// theirs there, by whatever name; else it is empty. Whoever did not write it has it from a package.
func (u Units) InPackageDir() string {
	u = u.withDefaults()
	if !slices.ContainsFunc(u.PackageDirs, func(dir string) bool { return sameFile(dir, u.UnitDir) }) {
		return ""
	}
	files, err := u.Files()
	if err != nil {
		return "" // Write says so
	}
	for _, f := range files {
		path := filepath.Join(u.UnitDir, f.Name)
		if content, err := regular.Read(path, 64<<10, regular.NoLink); err == nil && OwnFile(path) && !bytes.Equal(content, f.Content) {
			return path
		}
	}
	return ""
}

// Present reports whether any unit of the updater is there, whoever brought it.
func (u Units) Present() bool {
	return u.some(func(p place) bool { return p.packaged != "" || p.present != nil })
}

func (u Units) some(is func(place) bool) bool {
	places, err := u.places()
	return err == nil && slices.ContainsFunc(places, is)
}

// Disable removes the links that enable a unit, as "systemctl disable" does. A
// unit that is not enabled is fine.
func (c *Conn) Disable(ctx context.Context, unit string) error {
	_, err := do(ctx, c, func(ctx context.Context, l *link) ([]sdbus.DisableUnitFileChange, error) {
		return l.api.DisableUnitFilesContext(ctx, []string{unit}, false)
	})
	if err != nil && !isNoSuchUnit(err) {
		return fmt.Errorf("disable %s: %w", unit, err)
	}
	return c.DaemonReload(ctx)
}

// OwnFile reports whether a file is a unit that this program wrote.
func OwnFile(path string) bool {
	content, err := regular.Read(path, 64<<10, regular.NoLink)
	return err == nil && bytes.HasPrefix(content, []byte(mark+"\n"))
}

// OthersTimer reports whether systemd would start another updater by the name of our
// timer: a file of theirs stands where an administrator's units are, and before ours.
func (u Units) OthersTimer() bool {
	path := filepath.Join(u.withDefaults().ConfigDir, u.Timer())
	content, err := regular.Read(path, 64<<10, regular.NoLink)
	return err == nil && !bytes.HasPrefix(content, []byte(mark+"\n"))
}
