package rollout

import (
	"fmt"
	"slices"

	"teleport-update/internal/version"
)

// MostRun returns the version that most of the hosts in groups run, the newer one of
// two, with how many hosts run it, of how many. It is empty if nobody reports. This
// is what the next rollout starts from: whether the engine has called a rollout done
// says little of what hosts run.
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

// MostOf returns the version that most hosts run, by how many run each, the newer one of two, and how many these are. It is
// empty if no host has an agent.
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
