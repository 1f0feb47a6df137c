package systemd

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The limits of our own units are in drop-ins, not in the unit files. A drop-in for all services (service.d) ranks above a unit
// file: a limit there that is shorter than a restore of the agent's database takes would end each undoing, at each boot and in each
// run. systemd applies the drop-ins of a unit in the order of their names, whatever folder they are in.

// limitsFile is the name of these drop-ins. It sorts after the names that people give theirs.
const limitsFile = "zzzz-teleport-update.conf"

// SwitchLimit is the longest time that a transaction may take: a stop of the agent, a database, two health windows. One that takes
// longer is stuck, and ending it lets the next run undo it.
const SwitchLimit = 2 * time.Hour

// stopLimit is the time that a process has to end after systemd asked it to. An undoing goes on until it is complete: it restores
// a database of any size, stops the agent and starts it again. A process that runs longer is stuck: systemd kills it, or it would
// hold the lock of the updater for ever.
const stopLimit = 2 * time.Hour

// An ownLimit is a setting in the drop-in of one of our units.
type ownLimit struct {
	Section, Setting, Value string

	property string // under which systemd reports the loaded value; empty: the limit ends no process
	least    uint64 // by that property; a shorter limit comes from another file
}

// infinite is a value that systemd reports.
const infinite uint64 = math.MaxUint64

// inUSec is a length of time as systemd reports it.
func inUSec(d time.Duration) uint64 { return uint64(d.Microseconds()) }

// ownLimits are the limits of one of our units.
func (u Units) ownLimits(unit string) []ownLimit {
	start, startValue, run, runValue := infinite, "infinity", infinite, "infinity"
	switch unit {
	case u.Recovery(): // the agent's start waits for it
		start, startValue = inUSec(10*time.Minute), "10min"
	case u.Service():
		// Enough for a release over a link of 33 kB/s. A download that stalls ends itself, and the next run goes on with one that is cut
		// off here.
		start, startValue = inUSec(3*time.Hour), "3h"
	default:
		run, runValue = inUSec(SwitchLimit), "2h"
	}
	return []ownLimit{
		{"Unit", "JobTimeoutSec", "infinity", "JobTimeoutUSec", infinite},
		{"Unit", "JobRunningTimeoutSec", "infinity", "JobRunningTimeoutUSec", infinite},
		{"Service", "TimeoutStartSec", startValue, "TimeoutStartUSec", start},
		{"Service", "TimeoutStopSec", "2h", "TimeoutStopUSec", inUSec(stopLimit)},
		{"Service", "RuntimeMaxSec", runValue, "RuntimeMaxUSec", run},
		{"Service", "LimitCPU", "infinity", "LimitCPUSoft", infinite},
		{"Service", "LimitFSIZE", "infinity", "LimitFSIZESoft", infinite},
		{"Service", "CPUQuota", "", "", 0},
	}
}

// limitFiles are the drop-ins with the limits of our units. The units of transactions have one together.
func (u Units) limitFiles() (files []UnitFile) {
	for _, unit := range []string{u.Recovery(), u.Service(), transientPrefix + ".service"} {
		files = append(files, UnitFile{Name: filepath.Join(unit+".d", limitsFile), template: "limits.conf.tmpl", limits: u.ownLimits(unit)})
	}
	return files
}

// OthersDropIns are the drop-ins of one of our own units, but for ours.
func (u Unit) OthersDropIns() []string {
	return slices.DeleteFunc(slices.Clone(u.DropIns), func(file string) bool { return filepath.Base(file) == limitsFile })
}

// A ShortLimit is a limit that ranks above the updater's own and is shorter.
type ShortLimit struct {
	Setting string // as a unit file has it
	File    string // that sets it
}

func (s *ShortLimit) String() string { return fmt.Sprintf("%s in %s", s.Setting, s.File) }

// ShortLimit returns the first limit of one of our own units that is shorter, as systemd has loaded it, than the limit in our drop-in;
// nil if no limit is. Without our drop-in there is no order of names to compare: Write puts it back.
func (u Units) ShortLimit(loaded Unit) *ShortLimit {
	n := slices.IndexFunc(loaded.DropIns, func(file string) bool { return filepath.Base(file) == limitsFile })
	if n < 0 {
		return nil
	}
	for _, own := range u.ownLimits(loaded.Name) {
		is, known := loaded.Limits[own.property]
		if !known || is >= own.least {
			continue
		}
		return &ShortLimit{Setting: own.Setting + "=" + own.written(is), File: lastSetting(loaded.DropIns[n+1:], own)}
	}
	return nil
}

// lastSetting is the last of some drop-ins that sets a limit.
func lastSetting(dropIns []string, own ownLimit) string {
	for _, file := range slices.Backward(dropIns) {
		content, err := readUnit(file)
		if err != nil {
			continue
		}
		sets := func(a assignment) bool {
			both := a.name == "TimeoutSec" && strings.HasPrefix(own.Setting, "Timeout")
			return a.section == "["+own.Section+"]" && (a.name == own.Setting || both)
		}
		if slices.ContainsFunc(writtenAssignments(content), sets) {
			return file
		}
	}
	return strings.Join(dropIns, ", ") // systemd has read another text of one of them
}

// written is a value of a limit as a person reads it.
func (own ownLimit) written(value uint64) string {
	text := strconv.FormatUint(value, 10)
	switch {
	case strings.HasSuffix(own.property, "USec"):
		return limit(value).String()
	case own.Setting == "LimitCPU":
		return text + "s"
	}
	return text // in bytes
}

// parseLimits are the limits that systemd has loaded for a unit, by property.
func parseLimits(p properties) map[string]uint64 {
	limits := make(map[string]uint64)
	for _, own := range (Units{}).ownLimits("") {
		if value, there := p[own.property].Value().(uint64); there {
			limits[own.property] = value
		}
	}
	return limits
}
