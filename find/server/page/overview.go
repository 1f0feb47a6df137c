package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

// overviewView is the state of the rollout. Its first screen answers three questions: is anything wrong, since when, and what
// now.
type overviewView struct {
	adminapi.Overview
	Wrong    string // empty if nothing is wrong
	Now      []choice
	Counters []counter
	// Show and Group are the filter of the rows.
	Show, Group string
	Rows        []groupRow
	Failing     []adminapi.Host
	// More says that more hosts failed.
	More bool
	// Uncounted are the hosts in no count, by reason. Unmatched are the hosts that name a group which no
	// schedule has.
	Uncounted, Unmatched []tally
}

// tally is a number of hosts with a name.
type tally struct {
	Name  string
	Hosts int
}

// kinds are the kinds of groups in the order of the rows. A group is of the first kind that it fits.
var kinds = []struct {
	name  string
	wrong [2]string // what is wrong with one such group, and with several
	fits  func(rollout.GroupOverview) bool
}{
	{"halted", [2]string{"is halted", "are halted"}, func(g rollout.GroupOverview) bool { return g.Halted != nil }},
	{"stalled", [2]string{"is stalled", "are stalled"}, func(g rollout.GroupOverview) bool { return len(g.Conditions) > 0 }},
	{"failing", [2]string{"has failing hosts", "have failing hosts"}, func(g rollout.GroupOverview) bool {
		return g.Failed+g.TimedOut+g.Unhealthy > 0
	}},
	{"rolled back", [2]string{"was rolled back", "were rolled back"}, func(g rollout.GroupOverview) bool {
		return g.State == rollout.RolledBack
	}},
	{"updating", [2]string{}, func(g rollout.GroupOverview) bool {
		return g.State == rollout.Canarying || g.State == rollout.Active
	}},
	{"waiting", [2]string{}, func(g rollout.GroupOverview) bool { return g.State == rollout.Unstarted }},
	{"done", [2]string{}, func(rollout.GroupOverview) bool { return true }},
}

func kindOf(g rollout.GroupOverview) int {
	for i := range kinds {
		if kinds[i].fits(g) {
			return i
		}
	}
	panic("the last kind fits every group")
}

// counter is the number of groups of a kind. It leads to their rows.
type counter struct {
	Name  string
	Count int
	Rows  string // the address
	Shown bool
	Wrong bool
}

// groupRow is a group with its bar and its orders.
type groupRow struct {
	rollout.GroupOverview
	kind  int
	Shown string // its state, in a word
	// Next says what the group waits for, Why what is wrong with it, and Runs the other versions of its hosts.
	Next, Why, Runs string
	Bar             []segment
	Orders          []choice
}

// failingShown is how many failed hosts the first view names: a whole fleet may have failed.
const failingShown = 10

func (p *page) overview(w http.ResponseWriter, v *visit) {
	view := overviewView{Show: v.URL.Query().Get("show"), Group: console.Line(v.URL.Query().Get("group"))}
	if err := p.api.ask(v, http.MethodGet, "/v1/overview?counts=last", nil, &view.Overview); err != nil {
		p.fail(w, v, err)
		return
	}
	view.Now = choicesFor(v, view.Commands)
	if view.Mode == rollout.Enabled && !slices.Contains(view.Commands, rollout.Suspension) {
		view.Now = append(view.Now, choicesFor(v, []rollout.Choice{rollout.Suspension})...)
	}
	view.addGroups(v)
	view.Uncounted, view.Unmatched = tallies(view.Omitted), tallies(view.Overview.Unmatched)
	if failing, err := p.failing(v); err == nil { // a server without reports has no such hosts
		view.Failing, view.More = failing.Hosts, failing.Next != ""
	}
	p.show(w, v, http.StatusOK, "overview", frame{Title: "Rollout", Here: "overview", Refresh: true, View: view})
}

// addGroups adds the counters and the rows, the groups with trouble first.
func (view *overviewView) addGroups(v *visit) {
	count := make([]int, len(kinds))
	for _, g := range view.Groups {
		kind := kindOf(g)
		count[kind]++
		if view.Show != "" && view.Show != kinds[kind].name || !strings.Contains(g.Name, view.Group) {
			continue
		}
		row := groupRow{GroupOverview: g, kind: kind, Shown: string(g.State), Runs: otherVersions(view.Target, g), Bar: barOf(g)}
		switch {
		case g.Halted != nil:
			row.Shown, row.Why = "halted", g.Halted.Message
		case len(g.Conditions) > 0:
			row.Shown, row.Why = "stalled", g.Conditions[0].Message
		}
		row.Next = strings.TrimPrefix(g.Next(), row.Shown+" ")
		if v.may(adminapi.Command) {
			row.Orders = choicesFor(v, g.Orders)
		}
		view.Rows = append(view.Rows, row)
	}
	slices.SortStableFunc(view.Rows, func(a, b groupRow) int { return cmp.Compare(a.kind, b.kind) })
	var wrong []string
	if len(view.Server.Blocked) > 0 {
		wrong = append(wrong, "the server is blocked")
	}
	view.Counters = []counter{{Name: "groups", Count: len(view.Groups), Rows: Path, Shown: view.Show == ""}}
	for i, kind := range kinds {
		if count[i] == 0 {
			continue
		}
		view.Counters = append(view.Counters, counter{
			kind.name, count[i], Path + "?" + url.Values{"show": {kind.name}}.Encode(), view.Show == kind.name, kind.wrong[0] != "",
		})
		if kind.wrong[0] != "" {
			wrong = append(wrong, fmt.Sprintf("%d of %s %s", count[i], plural(len(view.Groups), "group"), kind.wrong[min(count[i]-1, 1)]))
		}
	}
	view.Wrong = strings.Join(wrong, ", ")
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

// maxVersions is how many versions a row has: hosts can make up others.
const maxVersions = 3

// otherVersions names the versions on a group's hosts that are not on the target, the most frequent first.
func otherVersions(target rollout.Semver, g rollout.GroupOverview) string {
	versions := slices.DeleteFunc(slices.Collect(maps.Keys(g.Versions)), func(one rollout.Semver) bool { return one == target })
	slices.SortFunc(versions, func(a, b rollout.Semver) int {
		return cmp.Or(cmp.Compare(g.Versions[b], g.Versions[a]), cmp.Compare(a, b))
	})
	var names []string
	for _, one := range versions[:min(maxVersions, len(versions))] {
		names = append(names, fmt.Sprintf("%s on %s", thousands(g.Versions[one]), cmp.Or(string(one), "no agent")))
	}
	if len(versions) > maxVersions {
		names = append(names, "others")
	}
	return strings.Join(names, ", ")
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
