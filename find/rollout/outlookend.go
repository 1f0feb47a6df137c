package rollout

import (
	"fmt"
	"slices"
	"strings"
)

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

// some names the first ones of a list.
func some(names []string) string {
	if len(names) > maxNamed {
		names = append(slices.Clone(names[:maxNamed]), "…")
	}
	return strings.Join(names, ", ")
}

// hosts is a number of hosts in words.
func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

func ofHosts(part, whole int) string { return fmt.Sprintf("%d of %s", part, hosts(whole)) }

func haveOf(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func areOf(whole int) string {
	if whole == 1 {
		return "is"
	}
	return "are"
}
