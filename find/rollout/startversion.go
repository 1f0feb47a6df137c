package rollout

import (
	"fmt"
	"slices"

	"teleport-update/internal/version"
)

// MostRun returns the version that most of the hosts in groups run, how many run it,
// and of how many. Of two versions with as many hosts, it returns the newer one. It is
// empty if nobody reports. The next rollout starts from this version: that a rollout is
// done says little about the versions on its hosts.
func MostRun(groups []GroupOverview) (most Semver, hosts, of int) {
	sums := make(map[Semver]int)
	for _, g := range groups {
		for v, n := range g.Versions {
			sums[v] += n
			of += n
		}
	}
	most, hosts = MostOf(sums)
	return most, hosts, of
}

// MostOf returns the version that most hosts run, by the number of hosts on each, how many these are. Of two with as
// many hosts, it returns the newer one. It is empty if no host has an agent.
func MostOf[V ~string](versions map[V]int) (most V, hosts int) {
	for v, n := range versions {
		newer := n == hosts && version.Compare(string(v), string(most)) > 0
		if v != "" && (n > hosts || newer) {
			most, hosts = v, n
		}
	}
	return most, hosts
}

// newerThanStart warns of groups before their turn whose hosts run a version that is
// newer than the start version: new hosts would install an older one beside them.
func newerThanStart(r *Rollout, n Counts) (list []string) {
	start := string(r.Spec.StartVersion)
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if g.State != Unstarted {
			continue
		}
		newer, newest := 0, start
		for v, count := range n.Groups[i].Versions {
			if v == "" || v == r.Spec.TargetVersion || version.Compare(string(v), start) <= 0 {
				continue
			}
			newer += count
			newest = slices.MaxFunc([]string{newest, string(v)}, version.Compare)
		}
		if newer > 0 {
			list = append(list, fmt.Sprintf("%s of %s %s a version newer than the start version %s, up to %s: new hosts of the "+
				"group install the older one, and a rollback goes back to it (--start)",
				hosts(newer), excerpt(g.Name), verb("run", newer), start, newest))
		}
	}
	return list
}
