package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Outlook describes a rollout in a word and a sentence: the next step and its time, or
// the reason why nothing moves.
type Outlook struct {
	Word     Word   `json:"state"`
	Sentence string `json:"sentence"`
	// Since is when the state began: a halt, a condition or else the last step of a group.
	Since time.Time `json:"since,omitzero"`
	// Commands are what a person can do next, the safe choice first.
	Commands []Choice `json:"commands,omitempty"`
	// At is when it goes on by itself, as far as that can be said; zero else.
	At time.Time `json:"at,omitzero"`
}

// Word is the state of a rollout, in a word.
type Word string

// Look returns the outlook of a scene. It is a pure function.
func Look(s Scene) Outlook {
	return newSight(s).look()
}

func (v *sight) look() Outlook {
	for i := range outlooks {
		if o := &outlooks[i]; o.holds(v) {
			out := Outlook{Word: o.word, Since: v.lastStep()}
			o.describe(v, &out)
			if n := v.reported(); n > 0 {
				out.Sentence += fmt.Sprintf(" So far %s %s reported.", hosts(n), haveOf(n))
			}
			return out
		}
	}
	panic("the last outlook holds of every scene")
}

// outlook is a row of the table of outlooks.
type outlook struct {
	word     Word
	when     string
	holds    func(*sight) bool
	describe func(*sight, *Outlook)
}

// outlooks are tried in their order. docs/teleport-find.md prints them.
var outlooks = []outlook{
	{"unset", "no version is set", func(v *sight) bool { return v.Version == nil }, (*sight).unset},
	{"disabled", "the mode is disabled, or neither resource sets one", func(v *sight) bool { return v.mode == Disabled }, (*sight).resting},
	{"suspended", "the mode is suspended", func(v *sight) bool { return v.mode == Suspended }, (*sight).resting},
	{"immediate", "the version is for every host at once", func(v *sight) bool { return v.Version.Spec.Agents.Schedule == Immediate },
		(*sight).immediate},
	{"beginning", "the server has not begun the rollout of the version yet", func(v *sight) bool {
		return v.Rollout == nil ||
			!v.Rollout.Of(v.Version)
	}, (*sight).beginning},
	{"empty", "the schedule has no groups", func(v *sight) bool { return len(v.groups) == 0 }, (*sight).empty},
	{"halted", "a group is halted", func(v *sight) bool { return v.standing() != nil }, (*sight).halted},
	{"stalled", "a group has a condition", func(v *sight) bool { return v.first(isPointedOut) != nil }, (*sight).stalled},
	{"rolledback", "a group was rolled back", func(v *sight) bool { return v.first(in(RolledBack)) != nil }, (*sight).rolledBack},
	{"done", "all groups are done, and at least 90 % of the hosts of each are on the version (guarded: 100 % less both limits)",
		(*sight).allUpdated, (*sight).done},
	{"over", "all groups are done, and too few hosts of a group are on the version, or none of them reports", (*sight).allDone, (*sight).over},
	{"counting", "the server started less than 25 minutes ago, and a group would go on or start before these are over", (*sight).heldUp,
		(*sight).counting},
	{"updating", "a group is canary or active", func(v *sight) bool { return v.first(in(Canarying, Active)) != nil }, (*sight).updating},
	{"waiting", "none of these: the turn of the next group has not come", func(*sight) bool { return true }, (*sight).waiting},
}

func (v *sight) unset(o *Outlook) {
	o.Sentence = "No version is set: new hosts install the newest release that there was when the server started, if there was one."
	o.Commands = []Choice{{Command: "set-version VERSION", Does: "begins the rollout of VERSION"}}
}

func (v *sight) resting(o *Outlook) {
	by := ""
	if v.Version.Spec.Agents.Mode == v.mode {
		by = " by " + KindVersion
		// "mode" sets the mode of the config.
		does := fmt.Sprintf("goes on with %s, if FILE has a version with the mode enabled", v.target)
		o.Commands = []Choice{{Command: "apply -f FILE", Does: does}}
	} else {
		o.Commands = []Choice{{Command: "mode enabled", Does: fmt.Sprintf("goes on with %s, each group in its turn", v.target)}}
	}
	o.Sentence = fmt.Sprintf("Updates are %s%s: no host updates by itself, and no group goes on.", v.mode, by)
}

func (v *sight) immediate(o *Outlook) {
	o.Sentence = fmt.Sprintf("Every host is told to update to %s at once.", v.target)
	o.Commands = []Choice{wait("hosts update at their next poll")}
}

func (v *sight) beginning(o *Outlook) {
	o.Sentence = fmt.Sprintf("The rollout of %s begins within ten seconds.", v.target)
	o.Commands = []Choice{wait("it begins by itself")}
}

func (v *sight) empty(o *Outlook) {
	o.Sentence = fmt.Sprintf("The schedule %s has no groups: no host is told to update.", v.Rollout.Spec.Schedule)
	o.Commands = []Choice{{Command: "apply -f FILE", Does: "gives the schedule groups, if FILE has them"}, v.restart()}
}

func (v *sight) halted(o *Outlook) {
	g, halted := v.standing(), "None of its hosts is"
	if g.Halted.Reason == Expired {
		halted = "No more of its hosts are"
	}
	o.Sentence = fmt.Sprintf("Group %s has been halted since %s: %s. %s told to update%s.",
		excerpt(g.Name), Clock(g.Halted.Since), g.Halted.Message, halted, v.behind(g))
	o.Since = g.Halted.Since
	o.Commands = []Choice{wait("its hosts stay as they are")}
	if g.Halted.Reason == Expired {
		o.Commands = []Choice{wait("hosts that were told to update go on, and no others begin")}
	}
	v.add(o, g, Retry, MarkDone, Rollback)
}

// behind names the groups that cannot start before a group is done.
func (v *sight) behind(g *GroupStatus) string {
	if v.Rollout.Spec.Strategy == TimeBased {
		return ""
	}
	var names []string
	ahead := closure(before(v.Rollout.groups()))
	for i := range v.groups {
		if slices.Contains(ahead[i], v.Rollout.group(g.Name)) && v.groups[i].State == Unstarted {
			names = append(names, excerpt(v.groups[i].Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", and no host of " + some(names)
}

// helps are the orders by which a person moves a group that has a condition.
var helps = map[State]map[ConditionType][]Verb{
	Unstarted: {HostsMissing: {StartUpdate}},
	Canarying: {Stalled: {StartUpdate, MarkDone}},
	Active:    {Stalled: {MarkDone, Rollback}, PlanBroken: {Retry}, HeldBack: {MarkDone}},
}

// comesBack says what happens by itself once the cause of a condition is gone.
var comesBack = map[State]map[ConditionType]string{
	Unstarted: {HostsMissing: "the group starts when its hosts report again"},
	Canarying: {Stalled: "the group goes on when its canaries report the version"},
	Active: {
		Stalled:  "the group is done when enough of its hosts report the version",
		HeldBack: "the group goes on when agents are up again",
	},
}

func (v *sight) stalled(o *Outlook) {
	g := v.first(isPointedOut)
	c := g.Conditions[0]
	o.Sentence = fmt.Sprintf("Group %s has not gone on since %s: %s.", excerpt(g.Name), Clock(c.Since), c.Message)
	o.Since = c.Since
	if does := comesBack[g.State][c.Type]; does != "" {
		o.Commands = []Choice{wait("%s", does)}
	}
	v.add(o, g, helps[g.State][c.Type]...)
}

func (v *sight) rolledBack(o *Outlook) {
	list := v.all(in(RolledBack))
	var names []string
	back := make(map[Semver][]string) // groups by where they go
	for _, g := range list {
		to := v.Rollout.back(g)
		back[to] = append(back[to], excerpt(g.Name))
		names = append(names, excerpt(g.Name))
	}
	var where []string
	for _, to := range slices.Sorted(maps.Keys(back)) {
		where = append(where, string(to))
		if len(back) > 1 {
			where[len(where)-1] = fmt.Sprintf("%s (%s)", to, some(back[to]))
		}
	}
	was, its := "was rolled back: its", list[0]
	if len(list) > 1 {
		was = "were rolled back: their"
	}
	o.Sentence = fmt.Sprintf("%s %s hosts are told to go back to %s%s.", strings.Join(names, ", "), was, strings.Join(where, " and "),
		v.wentBack(list))
	o.Commands = []Choice{wait("hosts stay there until a version is set"),
		{Command: "set-version VERSION", Does: "begins the rollout of VERSION, and ends this one"}}
	v.add(o, its, StartUpdate)
	o.Commands = append(o.Commands, v.restart())
}

func (v *sight) counting(o *Outlook) {
	o.At = v.CompleteAt
	o.Commands = []Choice{wait("it goes on by itself")}
	o.Sentence = "The server does not know all hosts yet. No group goes on until hosts have had 25 minutes to report."
	if !o.At.IsZero() {
		o.Sentence = fmt.Sprintf("The server does not know all hosts yet. No group goes on before %s, when hosts have had 25 minutes to report.",
			ClockFrom(o.At))
	}
}

func (v *sight) updating(o *Outlook) {
	list := v.all(in(Canarying, Active))
	g := list[0]
	o.Sentence, o.At = v.progress(g)
	switch {
	case len(list) == 2:
		o.Sentence += fmt.Sprintf(" Group %s updates too.", excerpt(list[1].Name))
	case len(list) > 2:
		o.Sentence += fmt.Sprintf(" %d more groups update too.", len(list)-1)
	}
	if words := failures(list); words != "" {
		o.Sentence = words + ". " + o.Sentence
	}
	o.Commands = []Choice{wait("it goes on by itself"), Suspension}
	v.add(o, g, Rollback)
}

// progress is how far a group that is canary or active has come, and when its state
// ends whatever its hosts do.
func (v *sight) progress(g *GroupStatus) (string, time.Time) {
	config, name := g.config(), excerpt(g.Name)
	on, are := ofHosts(g.UpToDateCount, g.PresentCount), areOf(g.PresentCount)
	switch least := percentOf(config.threshold(), max(g.PresentCount, g.InitialCount)); {
	case g.State == Canarying:
		ready := 0
		for _, c := range g.Canaries {
			if c.Success {
				ready++
			}
		}
		canaries, all := fmt.Sprintf("%d canaries", len(g.Canaries)), "all of them are"
		if len(g.Canaries) == 1 {
			canaries, all = "1 canary", "it is"
		}
		return fmt.Sprintf("%d of %s of %s %s on %s; the group goes on when %s.", ready, canaries, name, areOf(len(g.Canaries)), v.target, all),
			time.Time{}
	case v.Rollout.within(untilClosed) && g.WindowEnd.IsZero():
		return fmt.Sprintf("%s of %s %s on %s, and the others are told to update.", on, name, are, v.target), time.Time{}
	case v.Rollout.within(untilClosed):
		return fmt.Sprintf("%s of %s %s on %s; the others are told to update until %s.", on, name, are, v.target, Clock(g.WindowEnd)), g.WindowEnd
	case g.InitialCount == 0:
		w, inside := windowAt(g.ConfigDays, g.ConfigStartHour, startTime, g.StartTime)
		if !inside || v.Rollout.Spec.AnyHour {
			w.to = g.StartTime.Add(startTime)
		}
		return fmt.Sprintf("Group %s started without hosts; it is done at %s.", name, Clock(w.to)), w.to
	case g.InitialCount < 0:
		return fmt.Sprintf("The hosts of %s are told to update; they are not counted yet.", name), time.Time{}
	case g.Plan != nil:
		return fmt.Sprintf("%s of %s %s on %s, and it is the turn of %d more; the group is done when %d %s, and all have had their turn.",
			on, name, are, v.target, g.InFlightCount, least, areOf(least)), time.Time{}
	default:
		return fmt.Sprintf("%s of %s %s on %s; the group is done when %d %s.", on, name, are, v.target, least, areOf(least)), time.Time{}
	}
}

// failures says how many hosts of groups failed; empty if none did.
func failures(groups []*GroupStatus) string {
	failed, present := 0, 0
	var names []string
	for _, g := range groups {
		if g.FailedCount > 0 {
			failed, present, names = failed+g.FailedCount, present+g.PresentCount, append(names, excerpt(g.Name))
		}
	}
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s failed", ofHosts(failed, present), some(names))
}

// percentOf is the least number of hosts that are so many percent of a number.
func percentOf(percent, whole int) int { return (percent*whole + 99) / 100 }

func (v *sight) waiting(o *Outlook) {
	next, ok := v.next()
	if !ok {
		o.Sentence = "No group can start by itself."
		return
	}
	o.At = next.At
	o.Sentence = fmt.Sprintf("Group %s starts at %s.", excerpt(next.Group), ClockFrom(next.At))
	if !next.At.After(v.Now) {
		o.Sentence = fmt.Sprintf("Group %s starts within ten seconds.", excerpt(next.Group))
	}
	o.Commands = []Choice{wait("it starts by itself")}
	v.add(o, &v.groups[v.Rollout.group(next.Group)], StartUpdate)
}

// The outlook of a rollout whose groups are all done. Done is a state of the engine: it
// also follows from the end of a window, an hour without hosts, or a person's
// "rollout done". So the words for people come from the counts.

// allUpdated reports whether every group is done and the version has come to it.
func (v *sight) allUpdated() bool {
	return v.allDone() && v.first(func(g *GroupStatus) bool { return !g.updated() }) == nil
}

func (v *sight) allDone() bool { return v.Rollout.Status.State == Done }

// updated reports whether there are hosts in the group, and enough of them on the
// target.
func (g *GroupStatus) updated() bool {
	config := g.config()
	return g.PresentCount > 0 && enough(g.UpToDateCount, max(1, config.threshold()), g.PresentCount)
}

// total is the hosts of all groups.
type total struct {
	present, upToDate, failed int
	without                   []string // groups in which no host reports
}

func (v *sight) total() (t total) {
	for i := range v.groups {
		g := &v.groups[i]
		t.present += g.PresentCount
		t.upToDate += g.UpToDateCount
		// Some that failed have come to the target later.
		t.failed += min(g.FailedCount, max(0, g.PresentCount-g.UpToDateCount))
		if g.PresentCount == 0 {
			t.without = append(t.without, excerpt(g.Name))
		}
	}
	return t
}

func (v *sight) done(o *Outlook) {
	t := v.total()
	o.Sentence = fmt.Sprintf("%s of all groups %s on %s.", ofHosts(t.upToDate, t.present), areOf(t.present), v.target)
	if t.failed > 0 {
		o.Sentence = fmt.Sprintf("%s of all groups %s on %s; %d failed.", ofHosts(t.upToDate, t.present), areOf(t.present), v.target, t.failed)
	}
	o.Commands = []Choice{wait("all groups have had their turn")}
}

// over is done without the hosts being updated.
func (v *sight) over(o *Outlook) {
	t := v.total()
	timed := v.Rollout.within(untilClosed)
	o.Sentence = "All groups are done; "
	if timed {
		o.Sentence = "Windows are over; "
	}
	switch {
	case t.present == 0:
		o.Sentence += fmt.Sprintf("no host reports, and the server cannot tell whether any is on %s.", v.target)
	case t.failed > 0:
		o.Sentence += fmt.Sprintf("%s %s on %s, %d failed.", ofHosts(t.upToDate, t.present), areOf(t.present), v.target, t.failed)
	default:
		o.Sentence += fmt.Sprintf("%s %s on %s.", ofHosts(t.upToDate, t.present), areOf(t.present), v.target)
	}
	if t.present > 0 && len(t.without) > 0 {
		o.Sentence += fmt.Sprintf(" No host of %s reports.", some(t.without))
	}
	behind := v.first(func(g *GroupStatus) bool { return !g.updated() })
	if !timed {
		if t.upToDate < t.present {
			o.Sentence += " The others are told to update."
		}
		o.Commands = []Choice{wait("all groups have had their turn"), v.restart()}
		return
	}
	for _, start := range v.starts(v.Rollout) {
		if start.Group == behind.Name && start.Waits == "" {
			o.At = start.At
			o.Sentence += fmt.Sprintf(" The next window of %s begins at %s.", excerpt(behind.Name), ClockFrom(start.At))
		}
	}
	if !o.At.IsZero() {
		o.Commands = []Choice{wait("the next window begins by itself")}
	}
	v.add(o, behind, StartUpdate)
}

// wentBack says how many hosts of groups that were rolled back have reached the version
// of the rollback.
func (v *sight) wentBack(groups []*GroupStatus) string {
	there, present := 0, 0
	for _, g := range groups {
		if i := v.Rollout.group(g.Name); i < len(v.Counts.Groups) {
			n := &v.Counts.Groups[i]
			there, present = there+n.Versions[v.Rollout.back(g)], present+n.Present
		}
	}
	if present == 0 {
		return "; no host reports, and the server cannot tell whether any has"
	}
	return fmt.Sprintf("; %s %s there", ofHosts(there, present), areOf(present))
}
