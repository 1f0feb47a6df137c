package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// serverRoles are the values of --roles that make the agent run a server of the cluster, whatever its configuration says.
var serverRoles = []string{"auth", "proxy"}

// Configuration is the agent's configuration, at the path that its unit leads to.
type Configuration struct{ host *Host }

// ConfigurationOn returns the configuration of the agent of a host.
func ConfigurationOn(h *Host) Configuration { return Configuration{h} }

// Path returns where it is, or belongs. A unit that cannot be read to the end is an error, as in AgentPlaces.
func (c Configuration) Path() (string, error) {
	places, err := c.host.AgentPlaces()
	return places.Config, err
}

// Settings returns the settings that the updater takes from it; none from a missing file.
func (c Configuration) Settings() (AgentSettings, error) {
	config, err := c.Path()
	if err != nil {
		return AgentSettings{}, err
	}
	return ReadAgentSettings(config)
}

// Servers says how it shows that this host runs servers of the cluster itself; it is empty if nothing shows it. The agent's
// unit leads to the configuration that counts, and may name roles. A configuration without the section auth_service says
// nothing about it: most agents have no such section. Then only the database of an auth server shows one.
func (c Configuration) Servers() (string, error) {
	places, err := c.host.AgentPlaces()
	if err != nil {
		return "", err
	}
	agent, err := ReadAgentSettings(places.Config)
	if err != nil {
		return "", failure.Unchanged("%w", err).To("repair the file")
	}
	command, err := c.host.AgentUnit().command()
	if err != nil {
		return "", err
	}
	roles, named := rolesOf(command.Words)
	if roles != "" {
		return roles + " in the agent's unit", nil
	}
	if agent.Servers != "" {
		return agent.Servers + " in " + places.Config, nil
	}
	if named || agent.NoAuth {
		return "", nil
	}
	dir, err := c.host.AgentDataDir()
	if err != nil {
		return "", err
	}
	database := filepath.Join(dir, "backend", "sqlite.db")
	_, err = os.Lstat(database)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return "", nil
	case err != nil:
		return "", failure.Unchanged("look for the database of an auth server: %w", err)
	}
	return database + " is the database of an auth server, and " + places.Config + " does not have `auth_service: {enabled: no}`", nil
}

// rolesOf returns the words of a command that name roles of servers, empty if none does; named says that it names any roles.
func rolesOf(words []string) (servers string, named bool) {
	for _, a := range systemd.Arguments(words) {
		if a.Name != "--roles" {
			continue
		}
		named, servers = true, ""
		for role := range strings.SplitSeq(a.Value, ",") {
			if slices.Contains(serverRoles, strings.TrimSpace(role)) {
				servers = strings.Join(a.Words, " ")
			}
		}
	}
	return servers, named
}
