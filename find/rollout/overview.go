package rollout

import (
	"fmt"
	"strings"
	"time"

	"teleport-update/internal/version"
)

// Overview is a rollout as "teleport-find status" shows it.
type Overview struct {
	Outlook
	Start    Semver          `json:"start_version,omitempty"`
	Target   Semver          `json:"target_version,omitempty"`
	Schedule Schedule        `json:"schedule,omitempty"`
	Strategy Strategy        `json:"strategy,omitempty"`
	Mode     Mode            `json:"mode"`
	Groups   []GroupOverview `json:"groups,omitempty"`
	// Warnings are the result of Foresee.
	Warnings []string `json:"warnings,omitempty"`
	// Omitted and Unmatched are the fields of Counts.
	Omitted   map[string]int `json:"omitted,omitempty"`
	Unmatched map[string]int `json:"unmatched,omitempty"`
}

// GroupOverview is one group of an Overview.
type GroupOverview struct {
	Name       string      `json:"name"`
	State      State       `json:"state"`
	Since      time.Time   `json:"since"`
	Reason     Reason      `json:"reason"`
	Halted     *Halted     `json:"halted,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	// Starts is when the group starts at the earliest. It is zero if the group has
	// started, or waits for something that Waits names. After is a group that has to be done first.
	Starts time.Time `json:"starts,omitzero"`
	Waits  string    `json:"waits,omitempty"`
	After  string    `json:"after,omitempty"`

	// SoFar says that the server does not know all hosts yet: the counts are of those that have reported so far.
	SoFar bool `json:"so_far,omitempty"`

	Initial   int `json:"initial_count"`
	Present   int `json:"present_count"`
	UpToDate  int `json:"up_to_date_count"`
	Failed    int `json:"failed_host_count"`
	TimedOut  int `json:"timeout_host_count"`
	InFlight  int `json:"in_flight_count"`
	Unhealthy int `json:"unhealthy_count"`
	// Updating counts the hosts that have said that they shall update, or have begun
	// to. InFlight counts the hosts of a plan whose turn it is, also those that do not
	// know yet; it is 0 for a group without a plan.
	Updating int `json:"updating_count"`
	// Canaries counts the picked hosts, CanariesDone those that reported the target.
	Canaries     int            `json:"canaries,omitempty"`
	CanariesDone int            `json:"canaries_done,omitempty"`
	Plan         *PlanReference `json:"plan,omitempty"`
	MaxInFlight  *Share         `json:"max_in_flight,omitempty"`
	// Versions counts the present hosts by their version; "" stands for no agent.
	Versions map[Semver]int `json:"versions,omitempty"`
	Problems []Problem      `json:"problems,omitempty"`
	// Orders are what a person can order now, the safe order first.
	Orders []Choice `json:"orders,omitempty"`
}

// Next says what the group waits for.
func (g *GroupOverview) Next() string {
	switch {
	case g.Halted != nil:
		return fmt.Sprintf("halted while %s since %s (%s)", g.State, Clock(g.Halted.Since), g.Halted.Reason)
	case len(g.Conditions) > 0:
		return fmt.Sprintf("%s since %s", strings.ToLower(string(g.Conditions[0].Type)), Clock(g.Conditions[0].Since))
	case g.Waits != "":
		return "waits: " + g.Waits
	case g.After != "":
		return fmt.Sprintf("starts %s at the earliest, after %s", ClockFrom(g.Starts), excerpt(g.After))
	case !g.Starts.IsZero():
		return "starts " + ClockFrom(g.Starts)
	case g.State == Canarying && g.Canaries == 1:
		return fmt.Sprintf("%d of 1 canary is done", g.CanariesDone)
	case g.State == Canarying:
		return fmt.Sprintf("%d of %d canaries are done", g.CanariesDone, g.Canaries)
	case g.Plan != nil && g.State == Active:
		turns := g.Plan.LastActiveHostIndex + 1
		return fmt.Sprintf("%d of %s of the plan %s had a turn", turns, hosts(g.Plan.HostCount), haveOf(turns))
	}
	return fmt.Sprintf("%s since %s", g.State, Clock(g.Since))
}

// Survey returns the overview of a scene. It is a pure function.
func Survey(s Scene) Overview {
	v := newSight(s)
	r, n := v.Rollout, s.Counts
	o := Overview{Outlook: v.look(), Mode: Disabled, Omitted: s.Counts.Omitted, Unmatched: s.Counts.Unmatched}
	if s.Version == nil {
		if s.Config != nil && s.Config.Spec.Agents.Mode != "" {
			o.Mode = s.Config.Spec.Agents.Mode
		}
		return o
	}
	if r == nil || !r.Of(s.Version) {
		r, n, v = NewRollout(s.Config, s.Version, s.Now), Counts{}, nil
	} else {
		o.Warnings = Foresee(s)
	}
	o.Start, o.Target, o.Schedule, o.Strategy = r.Spec.StartVersion, r.Spec.TargetVersion, r.Spec.Schedule, r.Spec.Strategy
	o.Mode = EffectiveMode(s.Config, s.Version)
	starts := s.starts(r)
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		line := GroupOverview{
			Name: g.Name, State: g.State, Since: g.LastUpdateTime, Reason: g.LastUpdateReason, Halted: g.Halted, Conditions: g.Conditions,
			Initial: g.InitialCount, Present: g.PresentCount, UpToDate: g.UpToDateCount, Failed: g.FailedCount, TimedOut: g.TimedOutCount,
			InFlight: g.InFlightCount, Unhealthy: g.UnhealthyCount, Canaries: len(g.Canaries), Plan: g.Plan, MaxInFlight: g.ConfigMaxInFlight,
		}
		if g.State == Unstarted || g.State == Done && r.within(untilClosed) {
			line.Starts, line.Waits, line.After = starts[i].At, starts[i].Waits, starts[i].After
		}
		for _, c := range g.Canaries {
			if c.Success {
				line.CanariesDone++
			}
		}
		if i < len(n.Groups) {
			line.Versions, line.Problems = n.Groups[i].Versions, n.Groups[i].Problems
			line.Updating = n.Groups[i].Tally.With(HostUpdating)
		}
		if v != nil {
			line.SoFar = s.soFar(i)
			line.Orders = v.ofGroup(g)
		}
		o.Groups = append(o.Groups, line)
	}
	return o
}

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
