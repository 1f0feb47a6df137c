package systemd

import (
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"

	"teleport-update/internal/layout"
)

// maskFolders are the folders in which people mask units, the one with precedence first: for good, and until the next boot.
var maskFolders = []string{layout.ConfigDir, "/run/systemd/system"}

// MaskOf returns the file by which people masked a unit: a link to /dev/null, or an empty file (systemd.unit(5)). If
// there are two, it returns the one with precedence; otherwise "".
func MaskOf(unit string) string {
	path, _ := maskIn(maskFolders, unit)
	return path
}

// maskIn is MaskOf in folders. byLink reports whether the mask is a link: systemctl removes links, and leaves files.
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

// Unmask returns the command that removes the mask of a unit. Without --runtime, systemctl leaves a mask in /run as it is. A
// unit that is masked in both places needs the command for /etc first, and then the other.
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

// clockSlack is how much the clocks may disagree without one having been set back.
const clockSlack = time.Second

// setBack corrects moments that lie after the latest one that the monotonic clock allows: the clock was
// set back since, and they would hide later moments. A clock that was set ahead, or a host that slept,
// lets moments look longer ago than they are. Those stay: the two cases look alike.
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
