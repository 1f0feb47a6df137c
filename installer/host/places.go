package host

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/trust"
	"teleport-update/systemd"
)

// Places are the paths that the agent's unit leads it to.
type Places struct {
	Config  string // its configuration
	DataDir string // empty: the configuration says
}

const (
	// configVariable makes the agent read another configuration than the usual one.
	configVariable = "TELEPORT_CONFIG_FILE"

	// textVariable and textFlag give the agent its configuration itself, in base64, which then
	// counts in place of any file.
	textVariable = "TELEPORT_CONFIG"
	textFlag     = "--config-string"
)

// AgentPlaces asks the agent's unit where the agent has its configuration and its data: its
// command, drop-ins and environment files decide, for these are root's. The agent's user controls
// what a process shows, so that chooses no path. A unit that cannot be read to the end is an error:
// a guess would take another database for the agent's.
func (h *Host) AgentPlaces() (Places, error) {
	usual := Places{Config: h.Paths.AgentConfig}
	command, err := h.AgentUnit().command()
	if err != nil {
		return usual, err
	}
	if !command.Found && h.HasOriginals() {
		// Somebody took the unit away. The one that comes back has these arguments.
		var o struct {
			Arguments []string `json:"arguments"`
		}
		if err := h.decodeOriginals(&o); err != nil {
			return usual, err
		}
		command.Words = append([]string{"start"}, o.Arguments...)
	}
	found := ledByCommand(command)
	if _, named := command.Environment[configVariable]; named || command.Variables {
		// A user who can write the file would choose which files root reads and replaces.
		for _, file := range command.Files {
			if err := trust.Path(file); err != nil {
				return usual, failure.Unchanged("the agent's unit leads it where %s says, which is not believed: %w", file, err).
					To("make the file writable by root only").Refused()
			}
		}
	}
	if err := checkPlaces(found, command, h.Paths.AgentUnit()); err != nil {
		return usual, err
	}
	if found.Config == layout.AgentConfig && !h.systemdReads() {
		found.Config = "" // a release's unit in a tree that is no host's
	}
	found.Config = cmp.Or(found.Config, usual.Config)
	return found, nil
}

// ledBy returns where the agent's unit leads it now, and would lead it with another content of its file, beside the
// present drop-ins and environment. An agent that nothing leads takes the usual configuration. Without a unit both
// are the zero Places.
func (a AgentUnit) ledBy(unit []byte) (now, then Places, err error) {
	before, err := a.command()
	if err != nil || !before.Found {
		return Places{}, Places{}, err
	}
	after, err := systemd.ReadServiceWith(unit, a.paths.AgentUnit(), a.dirs())
	if err != nil {
		return Places{}, Places{}, err
	}
	now, then = ledByCommand(before), ledByCommand(after)
	now.Config, then.Config = cmp.Or(now.Config, layout.AgentConfig), cmp.Or(then.Config, layout.AgentConfig)
	return now, then, nil
}

// UnresolvedError means that only systemd can tell where the agent's unit leads it, or that a configuration cannot be read that the unit
// does not name. No version is changed then; it does not keep the agent from starting.
type UnresolvedError struct{ Err error }

func (e *UnresolvedError) Error() string { return e.Err.Error() }
func (e *UnresolvedError) Unwrap() error { return e.Err }

// LedElsewhere compares where the agent's unit leads it now and would lead it with another content of its file, and reports whether
// the configuration or the folder of data would be another one. If a configuration cannot be read, other names are enough for that.
func LedElsewhere(h *Host, unit []byte) (now, then Places, elsewhere bool) {
	now, then, err := h.AgentUnit().ledBy(unit)
	if err != nil || now == then {
		return now, then, false
	}
	if now.Config != then.Config && !isSameFile(now.Config, then.Config) {
		return now, then, true
	}
	dir, err := now.dataDir(h.Paths.DataDir)
	other, otherErr := then.dataDir(h.Paths.DataDir)
	return now, then, err != nil || otherErr != nil || dir != other && !isSameFile(dir, other)
}

// ledByCommand returns the places that a unit's command names, or its environment if the command does not.
func ledByCommand(command systemd.ServiceCommand) Places {
	named := ledTo(command.Words)
	named.Config = cmp.Or(named.Config, command.Environment[configVariable])
	return named
}

// ledTo returns the places that the arguments of a command name.
func ledTo(words []string) (named Places) {
	for _, a := range systemd.Arguments(words) {
		switch a.Name {
		case "--config":
			named.Config = a.Value
		case "--data-dir":
			named.DataDir = a.Value
		}
	}
	return named
}

// checkPlaces refuses places that could not be looked at.
func checkPlaces(found Places, command systemd.ServiceCommand, unit string) error {
	const edit = "`systemctl edit %s`"
	for _, path := range []string{found.Config, found.DataDir} {
		if strings.ContainsAny(path, "%$") {
			return failure.Unchanged("the agent's unit leads it to %q, which only systemd can resolve", path).
				To("write the path itself into the unit: "+edit, unit)
		}
		if path != "" && !filepath.IsAbs(path) {
			return failure.Unchanged("the agent's unit leads it to %q, which depends on the folder that it is started in", path).
				To("write the whole path into the unit: "+edit, unit)
		}
	}
	byFlag := slices.ContainsFunc(systemd.Arguments(command.Words), func(a systemd.Argument) bool { return a.Name == textFlag })
	if byFlag || command.Environment[textVariable] != "" {
		return failure.Unchanged("the agent's unit gives it its configuration as text (%s or %s), so where its database is cannot be seen",
			textVariable, textFlag).
			To("write the configuration into a file, and name it with --config: "+edit, unit)
	}
	return nil
}

// String says which arguments name the places.
func (p Places) String() string {
	var all []string
	if p.Config != "" {
		all = append(all, "--config "+p.Config)
	}
	if p.DataDir != "" {
		all = append(all, "--data-dir "+p.DataDir)
	}
	if all == nil {
		return "neither --config nor --data-dir"
	}
	return strings.Join(all, " ")
}
