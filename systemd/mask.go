package systemd

import (
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"

	"teleport-update/internal/durable"
	"teleport-update/internal/layout"
)

// maskFolders are where people mask units, the one that counts more first: for good, and until the next boot.
var maskFolders = []string{layout.ConfigDir, "/run/systemd/system"}

// MaskOf is the file by which people masked a unit: a link to /dev/null, or an empty file (systemd.unit(5)); the one that
// counts if there are two. It is empty if no such file is there.
func MaskOf(unit string) string {
	path, _ := maskIn(maskFolders, unit)
	return path
}

// maskIn is MaskOf in folders. byLink says how: systemctl takes links away, and leaves files.
func maskIn(folders []string, unit string) (path string, byLink bool) {
	for _, dir := range folders {
		path := filepath.Join(dir, unit)
		if to, err := os.Readlink(path); err == nil && to == os.DevNull {
			return path, true
		}
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return path, false
		}
	}
	return "", false
}

// Unmask is the command that takes away what masks a unit. Without --runtime, systemctl leaves a mask in /run as it is. A unit
// that is masked in both places needs the command for /etc first, and then the other.
func Unmask(unit string) string { return unmask(maskFolders, unit) }

func unmask(folders []string, unit string) string {
	switch path, byLink := maskIn(folders, unit); {
	case path != "" && !byLink:
		return "rm " + path + " && systemctl daemon-reload"
	case path != "" && filepath.Dir(path) != folders[0]:
		return "systemctl unmask --runtime " + unit
	}
	return "systemctl unmask " + unit
}

// moments are the properties of units that say when something happened, which systemd keeps on two
// clocks.
var moments = []string{
	"StateChangeTimestamp", "ActiveEnterTimestamp", "ExecMainStartTimestamp", "ExecMainExitTimestamp", "ConditionTimestamp", "AssertTimestamp",
	"LastTriggerUSec",
}

// clockSlack is by how much the clocks may disagree without one that was set back.
const clockSlack = time.Second

// setBack takes back moments that lie after what the monotonic clock allows: the clock was set back
// since, and they would hide what came after them. A clock that was set ahead, or a host that slept, lets
// moments look longer ago than they are, and stays: nobody can tell one from the other.
func (p properties) setBack(now time.Time, monotonic time.Duration) {
	for _, name := range moments {
		at, then := moment(p, name), property[uint64](p, name+"Monotonic")
		if at.IsZero() || then == 0 {
			continue
		}
		latest := now.Add(limit(then) - monotonic)
		if at.After(latest.Add(clockSlack)) {
			p[name] = dbus.MakeVariant(uint64(latest.UnixMicro()))
		}
	}
}

// Foreign are somebody else's files that have the names of our units.
func (u Units) Foreign() (names []string) {
	places, err := u.places()
	if err != nil {
		return nil // a problem
	}
	for _, p := range places {
		if p.foreign {
			names = append(names, p.own)
		}
	}
	return names
}

// CopyDropIns writes our own drop-ins of the agent's unit for units in another folder.
func (u Units) CopyDropIns(to Units) error {
	for from, path := range map[string]string{u.CarriedFile(): to.CarriedFile(), u.UpdaterInfoFile(): to.UpdaterInfoFile()} {
		content, foreign, err := readDropIn(from)
		if err != nil {
			return err
		}
		if content == nil || foreign {
			continue
		}
		if _, err := writeDropIn(path, content); err != nil {
			return err
		}
	}
	return nil
}

// EraseFiles is Erase once the same units are in another folder: what enables them goes only if they
// are enabled elsewhere.
func (u Units) EraseFiles(enabledElsewhere bool) error {
	places, err := u.places()
	if err != nil {
		return err
	}
	for _, p := range places {
		if !enabledElsewhere {
			p.wants = ""
		}
		if err := p.remove(); err != nil {
			return err
		}
		if dir := filepath.Dir(p.wants); p.wants != "" {
			if err := durable.RemoveEmpty(dir); err != nil {
				return err
			}
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
