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

// Scene holds everything that a person's look at a rollout depends on.
type Scene struct {
	Config  *Config  // may be nil
	Version *Version // nil: none is set
	Rollout *Rollout // may be nil
	Counts  Counts   // of the rollout
	// CompleteAt is when the counts will be complete; zero if nobody knows.
	CompleteAt time.Time
	Now        time.Time
}

// Look returns the outlook of a scene. It is a pure function.
func Look(s Scene) Outlook {
	return newSight(s).look()
}

func newSight(s Scene) *sight {
	s.Rollout = s.counted()
	v := &sight{Scene: s}
	if s.Version != nil {
		v.target, v.mode = s.Version.Spec.Agents.TargetVersion, EffectiveMode(s.Config, s.Version)
	}
	if s.Rollout != nil {
		v.groups = s.Rollout.Status.Groups
	}
	return v
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

// counted returns the rollout with the present counts: its own are up to a minute old.
func (s Scene) counted() *Rollout {
	if s.Rollout == nil || s.Version == nil || !s.Rollout.Of(s.Version) {
		return s.Rollout
	}
	e := newEngine(s.Rollout, s.Counts, s.Now)
	e.refresh()
	for i, step := range e.steps {
		if s.soFar(i) {
			counts := step.g.counts()
			counts.present, counts.upToDate, counts.unhealthy = step.n.Present, step.n.UpToDate, step.n.Unhealthy
			step.g.setCounts(counts)
		}
	}
	return e.r
}

// soFar reports whether the counts of a group are of the hosts that have reported so far: the server does not know all
// hosts yet, and these are more than the last complete count has.
func (s Scene) soFar(group int) bool {
	return !s.Counts.Complete && group < len(s.Counts.Groups) && s.Counts.Groups[group].Present > s.Rollout.Status.Groups[group].PresentCount
}

// starts says when the groups start at the earliest. No group starts before the server knows all hosts.
func (s Scene) starts(r *Rollout) []Start {
	from := s.Now
	if !s.Counts.Complete {
		from = later(from, s.CompleteAt)
	}
	return Preview(s.Config, s.Version, r, from)
}

// reported is the number of hosts that have reported so far; 0 if the server knows all hosts.
func (v *sight) reported() (hosts int) {
	r := v.Rollout
	if v.Counts.Complete || v.Version == nil || r == nil || !r.Of(v.Version) || v.Counts.Subject != r.Subject() {
		return 0
	}
	for i := range v.Counts.Groups {
		hosts += v.Counts.Groups[i].Present
	}
	return hosts
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

// sight is a scene with derived values for the rows.
type sight struct {
	Scene
	target Semver
	mode   Mode
	groups []GroupStatus
	engine *engine // of offer
}

// lastStep is when a group took its last step, or the rollout began.
func (v *sight) lastStep() (at time.Time) {
	if v.Rollout == nil || !v.Rollout.Of(v.Version) {
		return at
	}
	at = v.Rollout.Status.StartTime
	for i := range v.groups {
		at = later(at, v.groups[i].LastUpdateTime)
	}
	return at
}

func isPointedOut(g *GroupStatus) bool { return len(g.Conditions) > 0 }

func in(states ...State) func(*GroupStatus) bool {
	return func(g *GroupStatus) bool { return slices.Contains(states, g.State) }
}

// standing is the first group that is halted. Groups that a rollback of the rollout
// halted do not count while any group is rolled back.
func (v *sight) standing() *GroupStatus {
	rolledBack := v.first(in(RolledBack)) != nil
	return v.first(func(g *GroupStatus) bool {
		return g.Halted != nil && (g.Halted.Reason != RolloutRollback || !rolledBack)
	})
}

func (v *sight) first(holds func(*GroupStatus) bool) *GroupStatus {
	if list := v.all(holds); len(list) > 0 {
		return list[0]
	}
	return nil
}

func (v *sight) all(holds func(*GroupStatus) bool) (list []*GroupStatus) {
	for i := range v.groups {
		if holds(&v.groups[i]) {
			list = append(list, &v.groups[i])
		}
	}
	return list
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

func (v *sight) heldUp() bool {
	if v.Counts.Complete || v.first(in(Canarying, Active)) != nil {
		return !v.Counts.Complete
	}
	start, ok := v.next()
	return ok && (v.CompleteAt.IsZero() || !start.At.After(v.CompleteAt))
}

// next is the group that starts first, of those that wait for no other group.
func (v *sight) next() (next Start, ok bool) {
	for _, start := range v.starts(v.Rollout) {
		if start.State == Unstarted && start.Waits == "" && start.After == "" && (!ok || start.At.Before(next.At)) {
			next, ok = start, true
		}
	}
	return next, ok
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

// Clock is how people read a moment.
func Clock(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04 UTC") }

// ClockFrom is Clock for a moment before which nothing happens: the minute that it names is not too early.
func ClockFrom(t time.Time) string { return Clock(t.Add(time.Minute - 1)) }

// shellWord is a name as a word of a shell.
func shellWord(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == "" && !strings.HasPrefix(name, "-") &&
		name != "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
