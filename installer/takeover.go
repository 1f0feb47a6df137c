package installer

import (
	"slices"
	"strings"

	"teleport-update/find"
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
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
	also := func(server string) bool { return sameServer(given.address, server) }
	if !agent.NamesProxy() || also(kept) || also(agent.Proxy) || slices.ContainsFunc(agent.MoreServers, also) {
		return nil
	}
	asked, err := find.ParseProxy(given.address)
	named, err2 := find.ParseProxy(agent.Proxy)
	if err != nil || err2 != nil {
		return nil // what is no address is refused where it is used
	}
	by, correct := "--proxy", "leave --proxy out, correct it"
	if given.adopted {
		by, correct = "the updater that is replaced", "name the right one with --proxy"
	}
	return failure.Unchanged("%s names %s, and %s names %s: the host would run the version of another cluster than its agent's",
		by, asked.Hostname(), config, named.Hostname()).
		To("%s, or add --allow-proxy-conflict if the first is a find server of your own that speaks for that cluster", correct).Refused()
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
