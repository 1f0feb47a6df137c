package installer

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"teleport-update/find"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/internal/trust"
)

// askServers refuses a host that runs servers of the cluster itself, by what shows that. The database of an auth
// service holds the whole cluster; it is in no backup of the updater, and a version that
// migrated it cannot be undone.
func askServers(shown string) error {
	if shown == "" {
		return nil
	}
	return failure.Unchanged("this host runs servers of the cluster itself (%s): their data are "+
		"in no backup of the updater, "+
		"and a version that does not work could not be undone", shown).
		To("update such hosts by hand, or add --allow-auth-server if their data are backed up by other means").Refused()
}

// askProxy refuses a proxy that is another host than the one that the agent joins by: the
// version would be that of another cluster, which is a wrong host name more often than a find
// server of one's own. Ports may differ, for a proxy listens at more than one. An auth server
// is no proxy, and may well be another host than the proxy beside it; what has a port of proxies is one, under
// whatever name. kept is the server that this host follows already: nothing changes with it.
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

// anotherCluster reports whether a proxy is another host than the one that the agent joins by, and the addresses of both. What is no
// address is refused where it is used.
func anotherCluster(proxy string, agent host.AgentSettings) (asked, named *url.URL, another bool) {
	also := func(server string) bool { return sameServer(proxy, server) }
	if !agent.NamesProxy() || also(agent.Proxy) || slices.ContainsFunc(agent.MoreServers, also) {
		return nil, nil, false
	}
	asked, err := find.ParseProxy(proxy)
	named, err2 := find.ParseProxy(agent.Proxy)
	return asked, named, err == nil && err2 == nil
}

// allowsConflict reports whether a person allowed the proxy that this host is to follow to be another host than the agent's: now, or
// earlier and for the same proxy. Where both are one host there is nothing to allow.
func allowsConflict(i *Installer, opts EnableOptions, proxy string, c state.Config) bool {
	agent, err := host.ConfigurationOn(i.Machine.Host).Settings()
	if err != nil {
		return opts.AllowProxyConflict || c.Spec.AllowProxyConflict
	}
	_, _, another := anotherCluster(proxy, agent)
	return another && (opts.AllowProxyConflict || c.Spec.AllowProxyConflict && sameServer(proxy, c.Spec.Proxy))
}

// followsAnother says that this host asks another proxy than the one that its agent joins by, as after the agent was moved to another
// cluster, and what to do; empty if it does not, or a person allowed that. A find server that this host reports to was chosen by a
// person, who gave the host its token.
func followsAnother(i *Installer, s *survey.Survey, c state.Config) string {
	agent, err := s.AgentSettings()
	if err != nil || c.Spec.AllowProxyConflict || i.heartbeats().reporter(c.Spec.CAFile).Enabled() {
		return "" // another check tells of what cannot be read
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
