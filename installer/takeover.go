package installer

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/find"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// askServers refuses a host that runs servers of the cluster itself; shown names them. The database of an auth service holds the whole
// cluster; it is in no backup of the updater, and a version that migrated it cannot be undone.
func askServers(shown string) error {
	if shown == "" {
		return nil
	}
	return failure.Unchanged("this host runs servers of the cluster itself (%s): their data are "+
		"in no backup of the updater, "+
		"and a version that does not work could not be undone", shown).
		To("update such hosts by hand, or add --allow-auth-server if their data are backed up by other means").Refused()
}

// askProxy refuses a proxy on another host than the server that the agent joins by: the version would be another cluster's. That is more
// often a wrong host name than a find server of one's own. Ports may differ, because a proxy listens at more than one. An auth server is no
// proxy, and may well be on another host than the proxy beside it; a server with a port of proxies is a proxy, under whatever name. kept is
// the server that this host follows already: nothing changes with it.
func askProxy(given namedProxy, kept string, agent host.AgentSettings, config string) error {
	asked, named, another := anotherCluster(given.address, agent)
	if !another || sameServer(given.address, kept) {
		return nil
	}
	by, correct := "--proxy", "leave --proxy out, correct it"
	if given.adopted {
		by, correct = "the updater that is replaced", "name the right one with --proxy"
	}
	return failure.Unchanged("%s names %s, and %s names %s: the host would run the version of another cluster than its agent's",
		by, asked.Hostname(), config, named.Hostname()).
		To("%s, or add --allow-proxy-conflict if the first is a find server of your own that speaks for that cluster", correct).Refused()
}

// anotherCluster reports whether a proxy is on another host than the server that the agent joins by, and the addresses of both. A text that
// is no address is refused where it is used.
func anotherCluster(proxy string, agent host.AgentSettings) (asked, named *url.URL, another bool) {
	also := func(server string) bool { return sameServer(proxy, server) }
	if !agent.NamesProxy() || also(agent.Proxy) || slices.ContainsFunc(agent.MoreServers, also) {
		return nil, nil, false
	}
	asked, err := find.ParseProxy(proxy)
	named, err2 := find.ParseProxy(agent.Proxy)
	return asked, named, err == nil && err2 == nil
}

// allowsConflict reports whether a person allowed this host to follow a proxy on another host than the agent's: now, or earlier and for the
// same proxy. If both are one host, there is nothing to allow.
func allowsConflict(i *Installer, opts EnableOptions, proxy string, c state.Config) bool {
	agent, err := host.ConfigurationOn(i.Machine.Host).Settings()
	if err != nil {
		return opts.AllowProxyConflict || c.Spec.AllowProxyConflict
	}
	_, _, another := anotherCluster(proxy, agent)
	return another && (opts.AllowProxyConflict || c.Spec.AllowProxyConflict && sameServer(proxy, c.Spec.Proxy))
}

// followsAnother says that this host asks another proxy than the one that its agent joins by, as after the agent was moved to another
// cluster, and what to do; empty if it does not, or if a person allowed that. It is empty too if this host reports to a find server: a
// person chose that server, and gave the host its token.
func followsAnother(i *Installer, s *survey.Survey, c state.Config) string {
	agent, err := s.AgentSettings()
	if err != nil || c.Spec.AllowProxyConflict || i.heartbeats().reporter(c.Spec.CAFile).Enabled() {
		return "" // another check reports a file that cannot be read
	}
	asked, named, another := anotherCluster(c.Spec.Proxy, agent)
	if !another {
		return ""
	}
	config, err := host.ConfigurationOn(i.Machine.Host).Path()
	if err != nil {
		return ""
	}
	address := "ADDRESS" // the agent's user may have written the file
	if trust.Path(config) == nil {
		address = quoted(agent.Bare)
	}
	return fmt.Sprintf("updates.yaml names the proxy %s, and %s names %s: the host follows another cluster than its agent's: "+
		"`teleport-update enable --proxy %s` follows the agent's, and switches to its version at once; if the first is a find server of your "+
		"own that speaks for that cluster, `teleport-update enable --allow-proxy-conflict` keeps it",
		asked.Hostname(), config, named.Hostname(), address)
}

// namedProxy is the proxy that an enable is to follow, and whether the updater that it replaces named it.
type namedProxy struct {
	address string
	adopted bool
}

// sameServer reports whether two addresses name one host, at whatever ports.
func sameServer(a, b string) bool {
	one, err := find.ParseProxy(a)
	other, err2 := find.ParseProxy(b)
	return err == nil && err2 == nil && strings.EqualFold(strings.TrimSuffix(one.Hostname(), "."), strings.TrimSuffix(other.Hostname(), "."))
}

// refuseOlder refuses a first enable that would replace an agent, installed by
// other means, with an older one: its database may be beyond the older version,
// and enrolling is no wish to go back.
func (i *Installer) refuseOlder(ctx context.Context, starts string, t version.Release, allow bool) error {
	if allow {
		return nil
	}
	// The places of an agent that is not ours, the likeliest first.
	for _, program := range []string{starts, filepath.Join(i.Machine.Host.Paths.LinkDir, host.AgentName), "/usr/bin/teleport"} {
		if program == "" || !host.Exists(program) {
			continue
		}
		v, err := versions.ProgramVersion(ctx, program)
		if err != nil {
			i.Machine.Host.Log.Debug("the version of the installed agent is not known", "program", program, "error", err)
			continue
		}
		if version.Compare(v, t.Version) > 0 {
			return failure.Unchanged("this host runs version %s (%s), newer than version %s that the cluster wants", v, program, t.Short()).
				To("set the cluster to version %s or newer, or add --allow-downgrade", v).Refused()
		}
		return nil
	}
	return nil
}

// adopt takes over the settings of the updater that is replaced, if neither a flag nor updates.yaml says otherwise. A host that it kept on
// a version stays on that version.
func (i *Installer) adopt(spec *state.Spec) (stay version.Release, err error) {
	if !i.Machine.Host.OthersHere() {
		i.Machine.Host.Log.Info("there is no other updater on this host to replace")
		return stay, nil
	}
	theirs, err := host.ReadOthersSettings()
	if err != nil {
		return stay, err
	}
	spec.Proxy, spec.Group = cmp.Or(spec.Proxy, theirs.Proxy), cmp.Or(spec.Group, theirs.Group)
	if len(spec.URLTemplates) == 0 && theirs.Template != "" {
		spec.URLTemplates = []string{theirs.Template}
	}
	if theirs.Pinned && theirs.Active.Version != "" && spec.ActiveVersion == "" {
		spec.Pinned, stay = true, theirs.Active
	}
	i.Machine.Host.Log.Info("the settings of the other updater are taken over where nothing else was said", "proxy", spec.Proxy, "group",
		spec.Group, "pinned", spec.Pinned)
	return stay, nil
}

// checkOtherAgents refuses a first enable that would replace the program of an agent which another unit starts.
func checkOtherAgents(i *Installer) error {
	now := i.surveyToChange()
	defer now.Close()
	others, err := now.OtherAgents()
	if err != nil {
		return failure.Unchanged("it cannot be told whether another unit starts an agent: %w", err)
	}
	if len(others) == 0 {
		return nil
	}
	o, paths := others[0], i.Machine.Host.Paths
	return failure.Unchanged("%s runs an agent by %s (PID %d), and the updater looks after %s only: that agent would start on the "+
		"cluster's version next time, without a backup of its database, and nobody would watch it", o.Unit,
		filepath.Join(paths.LinkDir, host.AgentName), o.PID, paths.AgentUnit()).
		To("if the updater is to look after it, name its unit %[2]s: `systemctl disable --now %[1]s`, move its file, `systemctl daemon-reload`, "+
			"`systemctl enable --now %[2]s`, then run the command again; if not, give the updater a folder of its own: "+
			"`teleport-update --link-dir DIR enable`, with the other options as before", o.Unit, paths.AgentUnit()).Refused()
}
