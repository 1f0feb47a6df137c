package systemd

import (
	"strings"

	"teleport-update/internal/layout"
)

// The names of the updater's own units, and of what they own in /run, are known here alone: two sets of units on one host would
// differ in them.

// transientPrefix begins the names of the transient units in which transactions run.
const transientPrefix = "teleport-update-switch-"

// IsOwn reports whether a service is the updater's own: that of the timer, the recovery, or one in which a transaction runs.
func IsOwn(service string) bool {
	var u Units
	return service == u.Service() || service == u.Recovery() || strings.HasPrefix(service, transientPrefix)
}

// Timer is the name of the timer.
func (u Units) Timer() string { return "teleport-update.timer" }

// Service is the name of the service that the timer starts.
func (u Units) Service() string { return "teleport-update.service" }

// Recovery is the name of the recovery at boot.
func (u Units) Recovery() string { return "teleport-update-recover.service" }

// runDirectory is RuntimeDirectory= of the service.
func (u Units) runDirectory() string { return strings.TrimPrefix(layout.RunDir, "/run/") }

// named are the units without content, which depends on the folders.
func (u Units) named() []UnitFile {
	return []UnitFile{
		{Name: u.Recovery(), WantedBy: "multi-user.target", template: "teleport-update-recover.service.tmpl"},
		{Name: u.Service(), template: "teleport-update.service.tmpl"},
		{Name: u.Timer(), WantedBy: "timers.target", template: "teleport-update.timer.tmpl"},
	}
}
