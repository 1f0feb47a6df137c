package host

import (
	"cmp"
	"path/filepath"
	"strings"

	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/trust"
	"teleport-update/systemd"
)

// Places are where the agent's unit leads it.
type Places struct {
	Config  string // its configuration
	DataDir string // empty: the configuration says
}

// configVariable has the agent read another configuration than the usual one.
const configVariable = "TELEPORT_CONFIG_FILE"

// AgentPlaces asks the agent's unit where the agent has its configuration and its data: its
// command, drop-ins and environment files decide, for these are root's. What a process says
// belongs to its user, and chooses no path. A unit that cannot be read to the end is an error: a
// guess would take another database for the agent's.
func (h *Host) AgentPlaces() (Places, error) {
	usual := Places{Config: h.Paths.AgentConfig}
	command, err := systemd.ReadService(h.Paths.AgentUnit(), h.unitDirs())
	if err != nil {
		return usual, failure.Unchanged("see where the agent's unit leads it: %w", err).To("see that root can read the file")
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
	found := Places{Config: command.Environment[configVariable]}
	for _, a := range systemd.Arguments(command.Words) {
		switch a.Name {
		case "--config":
			found.Config = a.Value
		case "--data-dir":
			found.DataDir = a.Value
		}
	}
	if _, named := command.Environment[configVariable]; named || command.Variables {
		// Whoever can write the file would choose which files root reads and replaces.
		for _, file := range command.Files {
			if err := trust.Path(file); err != nil {
				return usual, failure.Unchanged("the agent's unit leads it where %s says, which is not believed: %w", file, err).
					To("make the file writable by root only").Refused()
			}
		}
	}
	for _, path := range []string{found.Config, found.DataDir} {
		if strings.ContainsAny(path, "%$") {
			return usual, failure.Unchanged("the agent's unit leads it to %q, which only systemd can resolve", path).
				To("write the path itself into the unit: `systemctl edit %s`", h.Paths.AgentUnit())
		}
	}
	if found.Config == layout.AgentConfig && !h.systemdReads() {
		found.Config = "" // a release's unit in a tree that is no host's
	}
	if !filepath.IsAbs(found.Config) {
		found.Config = ""
	}
	if !filepath.IsAbs(found.DataDir) {
		found.DataDir = ""
	}
	found.Config = cmp.Or(found.Config, usual.Config)
	return found, nil
}

// unitDirs are the folders of units, the ones that rank first before the others.
func (h *Host) unitDirs() []string {
	if !h.systemdReads() {
		return []string{h.Paths.UnitDir}
	}
	return append([]string{layout.ConfigDir, "/run/systemd/system", layout.UnitDir}, layout.PackageUnitDirs...)
}
