package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// overviewView is the state of the rollout.
type overviewView struct {
	adminapi.Overview
	Rows     []groupRow
	Versions versionTable
	Failing  []adminapi.Host
	// More says that more hosts failed.
	More bool
	// Uncounted are the hosts in no count, by reason. Unmatched are the hosts that name a group which no
	// schedule has.
	Uncounted, Unmatched []tally
	// Actions are for the whole rollout.
	Actions []action
}

// tally is a number of hosts with a name.
type tally struct {
	Name  string
	Hosts int
}

// groupRow is a group with its bar and its buttons.
type groupRow struct {
	rollout.GroupOverview
	Shown   string // its state, in a word
	Next    string
	Bar     []segment
	Actions []action
}

// failingShown is how many failed hosts the first view names: a whole fleet may have failed.
const failingShown = 10

func (p *page) overview(w http.ResponseWriter, v *visit) {
	var view overviewView
	if err := p.api.ask(v, http.MethodGet, "/v1/overview?counts=last", nil, &view.Overview); err != nil {
		p.fail(w, v, err)
		return
	}
	for _, g := range view.Groups {
		view.Rows = append(view.Rows, groupRow{
			GroupOverview: g, Shown: shownState(g), Next: nextWords(g), Bar: barOf(g), Actions: actionsFor(v, g),
		})
	}
	view.Versions = versionsOf(view.Groups)
	view.Uncounted, view.Unmatched = tallies(view.Omitted), tallies(view.Overview.Unmatched)
	view.Actions = actionsForAll(v, view.Mode)
	if failing, err := p.failing(v); err == nil { // a server without reports has no such hosts
		view.Failing, view.More = failing.Hosts, failing.Next != ""
	}
	p.show(w, v, http.StatusOK, "overview", frame{Title: "Rollout", Here: "overview", Refresh: true, View: view})
}

func (p *page) failing(v *visit) (hosts adminapi.Hosts, err error) {
	return hosts, p.api.ask(v, http.MethodGet, hostsQuery{State: adminapi.HostFailed, Limit: failingShown}.path(), nil, &hosts)
}

func tallies(counts map[string]int) (list []tally) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, tally{name, counts[name]})
	}
	return list
}

func shownState(g rollout.GroupOverview) string {
	if g.Halted != nil {
		return "halted"
	}
	return string(g.State)
}

// nextWords says what a group waits for.
func nextWords(g rollout.GroupOverview) string {
	switch {
	case g.Halted != nil:
		return fmt.Sprintf("halted while %s since %s: %s", g.State, rollout.Clock(g.Halted.Since), g.Halted.Message)
	case len(g.Conditions) > 0:
		c := g.Conditions[0]
		return fmt.Sprintf("%s since %s: %s", strings.ToLower(string(c.Type)), rollout.Clock(c.Since), c.Message)
	case g.Waits != "":
		return "waits: " + g.Waits
	case !g.Starts.IsZero():
		return fmt.Sprintf("starts %s at the earliest", rollout.Clock(g.Starts))
	case g.State == rollout.Canarying:
		if g.Canaries == 1 {
			return fmt.Sprintf("%d of 1 canary is done", g.CanariesDone)
		}
		return fmt.Sprintf("%d of %d canaries are done", g.CanariesDone, g.Canaries)
	case g.Plan != nil && g.State == rollout.Active:
		return fmt.Sprintf("%s of %s hosts of the plan have had a turn", thousands(g.Plan.LastActiveHostIndex+1), thousands(g.Plan.HostCount))
	}
	return fmt.Sprintf("%s since %s", g.State, rollout.Clock(g.Since))
}

// segment is a part of a bar, in hundredths of its width.
type segment struct {
	Class    string
	At, Wide int
}

// barOf returns segments for the hosts on the target, hosts on their way and failed hosts. A segment with hosts always has a width,
// and the first one is full only if all hosts are on the target.
func barOf(g rollout.GroupOverview) (bar []segment) {
	at := 0
	for _, s := range []struct {
		class string
		hosts int
	}{{"done", g.UpToDate}, {"moving", g.Updating}, {"failed", g.Failed + g.TimedOut}} {
		if s.hosts <= 0 || g.Present <= 0 {
			continue
		}
		wide := min(max(1, min(s.hosts, g.Present)*100/g.Present), 100-at)
		if wide > 0 {
			bar = append(bar, segment{s.class, at, wide})
		}
		at += wide
	}
	return bar
}

// versionTable counts the hosts of each group by version.
type versionTable struct {
	Versions []string
	Others   bool
	Rows     []versionRow
}

type versionRow struct {
	Group string
	Hosts []int
	Other int
}

// maxVersions is how many columns the table has: hosts can make up others.
const maxVersions = 6

func versionsOf(groups []rollout.GroupOverview) (t versionTable) {
	total := make(map[rollout.Semver]int)
	for _, g := range groups {
		for v, n := range g.Versions {
			total[v] += n
		}
	}
	all := slices.SortedFunc(maps.Keys(total), func(a, b rollout.Semver) int {
		return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b))
	})
	shown := all[:min(maxVersions, len(all))]
	t.Others = len(all) > len(shown)
	for _, v := range shown {
		t.Versions = append(t.Versions, cmp.Or(string(v), "no agent"))
	}
	for _, g := range groups {
		row := versionRow{Group: g.Name}
		for v, n := range g.Versions {
			if !slices.Contains(shown, v) {
				row.Other += n
			}
		}
		for _, v := range shown {
			row.Hosts = append(row.Hosts, g.Versions[v])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
