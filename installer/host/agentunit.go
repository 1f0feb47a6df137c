package host

import (
	"path/filepath"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/systemd"
)

// AgentUnit is the agent's unit as its files say it.
type AgentUnit struct {
	paths state.Paths
	own   systemd.Units
	read  bool // systemd reads the folder of the unit
	once  *commandOnce
}

// AgentUnit returns the agent's unit.
func (h *Host) AgentUnit() AgentUnit {
	return AgentUnit{h.Paths, h.OwnUnits(), h.systemdReads(), h.command}
}

func (a AgentUnit) command() (systemd.ServiceCommand, error) {
	return a.once.get(a.readCommand)
}

func (a AgentUnit) readCommand() (systemd.ServiceCommand, error) {
	command, err := systemd.ReadService(a.paths.AgentUnit(), a.dirs())
	if err != nil {
		err = failure.Unchanged("see where the agent's unit leads it: %w", err).To("see that root can read the file")
	}
	return command, err
}

// StartedProgram returns the program that the updater's unit of the agent starts: the link, unless
// somebody wrote another program into the unit's file.
func (a AgentUnit) StartedProgram() string {
	link := filepath.Join(a.paths.LinkDir, AgentName)
	command, err := systemd.ReadService(a.paths.AgentUnit(), []string{a.paths.UnitDir})
	if err != nil || len(command.Words) == 0 || !filepath.IsAbs(command.Words[0]) {
		return link
	}
	program := command.Words[0]
	if !a.read && filepath.Dir(program) == layout.LinkDir {
		return link // a release's unit in a tree that is no host's
	}
	return program
}

// CheckLoaded refuses a unit that leads the agent elsewhere, as systemd has loaded it, than its files
// do: the files decide where the agent's database is.
func (a AgentUnit) CheckLoaded(u systemd.Unit) error {
	loaded := ledTo(u.Command)
	command, err := a.command()
	if err != nil {
		return err
	}
	unread := systemd.HasUnread(u, a.dirs())
	read := ledTo(command.Words)
	only := strings.Contains(strings.Join(u.Command, " "), "$") // variables have no value there
	switch {
	case len(u.Command) == 0, !command.Found, only, loaded == read:
		return nil
	case unread && u.Idle():
		return nil // it is started as the files say, once systemd has read them
	}
	fix := "write the paths into one line of ExecStart= each, as they are: `systemctl edit %s`"
	if unread {
		fix = "run `systemctl daemon-reload`, and `systemctl restart %s` if that was changed on purpose; then run the command again"
	}
	return failure.Unchanged("systemd has loaded the agent's unit with %s, and its files say %s", loaded, read).
		To(fix, a.paths.AgentUnit()).Refused()
}

// dirs returns the folders of units, the highest rank first. In a tree that is no host's, the folder of units has one above
// it, as the administrators' folder has.
func (a AgentUnit) dirs() []string {
	if !a.read {
		return []string{a.own.ConfigDir + ".control", a.paths.UnitDir}
	}
	return systemd.UnitPath()
}

// Outranking returns the file that systemd takes for the agent's unit once it reads all units again, instead of the one that
// it has loaded, and whether that is a mask; empty if it is the same.
func (a AgentUnit) Outranking(u systemd.Unit) (path string, masks bool) {
	return systemd.Outranking(u, a.dirs())
}

// Unread reports whether files of a unit, the agent's or the recovery's, changed since systemd read them. The updater's own files
// are left out: it makes systemd read them when that is due.
func (a AgentUnit) Unread(u systemd.Unit) bool {
	if u.Name == a.own.Recovery() {
		return a.own.RecoveryUnread(u, a.dirs())
	}
	return systemd.HasUnread(u, a.dirs(), a.own.UpdaterInfoFile(), a.own.CarriedFile())
}
