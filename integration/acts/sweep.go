package acts

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/sample"
)

// everything asks for whole sweeps instead of the part that every run of the tests
// has.
var everything = os.Getenv("FAULTS") == "all"

// Sweep is a set of combinations that happen to the same few hosts.
type Sweep struct {
	name string // in its line of figures
	all  []combination
	// some is how many combinations each run of the tests has.
	some int
	// varies: FAULTS_SEED chooses the part.
	varies bool
	// original: the hosts had an agent before the first enable.
	original bool
	hosts    [2]int // how many share the combinations: whose agent is root, and has a user of its own
}

// counts are what a sweep saw.
type counts struct{ tried, excused, open, missed, advices, violations atomic.Int64 }

// enoughViolations end a sweep: so many have one cause.
const enoughViolations = 40

// budget is for a sweep of which an ordinary machine has a part in two minutes.
const budget = 8 * time.Minute

// Run has the combinations of this run happen, and fails the test with each that leaves
// the host otherwise than promised.
func (s Sweep) Run(t *testing.T) {
	var n counts
	some := sample.Within(budget)
	begun := time.Now()
	t.Run("on", func(t *testing.T) {
		for kind, own := range []bool{false, true} {
			rest := &queue{all: sample.Spread(s.chosen(t, own)), some: some}
			some.Among(len(rest.all))
			hosts := min(s.hosts[kind], len(rest.all))
			if some.Late() {
				hosts = min(hosts, 2)
			}
			for h := range hosts {
				name := "whose agent is root"
				if own {
					name = "whose agent has a user of its own"
				}
				t.Run(fmt.Sprintf("host %d %s", h+1, name), func(t *testing.T) {
					rest.happenTo(t, own, s.original, &n)
				})
			}
		}
	})
	t.Logf("%s: %d combinations of %d, that did not come to their moment %d, advices typed %d, with an exception in force %d, "+
		"open %d, violations: %d (in %v)%s", s.name, n.tried.Load(), len(s.all), n.missed.Load(), n.advices.Load(), n.excused.Load(),
		n.open.Load(), n.violations.Load(), time.Since(begun).Round(time.Second), some.Cut())
}

// queue has the combinations that have not happened yet.
type queue struct {
	all  []combination
	next atomic.Int64
	some *sample.Sample
}

// happenTo makes a host, if there is a combination for it, and has one after the other happen to it.
func (q *queue) happenTo(t *testing.T, own, original bool, n *counts) {
	var w *shared
	for n.violations.Load() < enoughViolations {
		i := int(q.next.Add(1) - 1)
		if i >= len(q.all) || !q.some.Next() {
			return
		}
		if w == nil {
			w = newShared(t, own, original)
		}
		w.meets(q.all[i], n)
	}
}

// chosen are the combinations of this run on hosts of a kind. OTHERS is a pattern of
// their names, FAULTS_POINTS=FIRST-LAST/STRIDE by their number.
func (s Sweep) chosen(t *testing.T, own bool) (some []combination) {
	t.Helper()
	named := regexp.MustCompile(os.Getenv("OTHERS"))
	first, last, stride := 0, 1<<30, 1
	if !everything && os.Getenv("OTHERS") == "" {
		first, stride = s.share(t)
	}
	if points := os.Getenv("FAULTS_POINTS"); points != "" {
		first, last, stride = 0, 1<<30, 1
		if n, err := fmt.Sscanf(points, "%d-%d/%d", &first, &last, &stride); n < 2 {
			t.Fatalf("FAULTS_POINTS=%s is not FIRST-LAST or FIRST-LAST/STRIDE: %v", points, err)
		}
	}
	for n, c := range s.all {
		if c.own == own && named.MatchString(c.String()) && n >= first && n <= last && (n-first)%stride == 0 {
			some = append(some, c)
		}
	}
	t.Logf("%d combinations", len(some))
	return some
}

// share is the part of the combinations that a run of the tests has: every stride-th,
// from the first on.
func (s Sweep) share(t *testing.T) (first, stride int) {
	t.Helper()
	stride = len(s.all) / s.some
	for stride%7 == 0 || stride%3 == 0 || stride%2 == 0 && stride > 2 {
		stride-- // no factor that the moments have, too, so that each of them has its part
	}
	if !s.varies {
		return 0, stride
	}
	first = int(sample.Seed() % uint64(stride))
	t.Logf("part %d of %d; another: FAULTS_SEED=%d; all: FAULTS=all", first, stride, first+1)
	return first, stride
}

// meets puts the host back, has one combination happen to it, and counts what came of
// that.
func (w *shared) meets(c combination, n *counts) {
	w.T.Helper()
	n.tried.Add(1)
	w.meeting = c.String()
	begun := time.Now()
	w.reset()
	one := &trial{shared: w, combination: c, least: map[string]int{oldVersion: w.rows}}
	one.run()
	n.advices.Add(int64(one.advices))
	how := ""
	if one.missed {
		n.missed.Add(1)
		how = ", did not come to its moment"
	}
	if one.excused && len(one.problems) == 0 {
		n.excused.Add(1)
		how += ", an exception"
	}
	why := openBecause(c.String())
	if len(one.problems) > 0 && why != "" {
		n.open.Add(1)
		w.T.Logf("OPEN, %s: %v\n\t%s", why, c, strings.Join(one.problems, "\n\t"))
	} else if len(one.problems) > 0 {
		n.violations.Add(1)
		w.T.Errorf("VIOLATION: %v\n\t%s\nwhat the updater said:\n%s", c, strings.Join(one.problems, "\n\t"), one.said.String())
	}
	w.T.Logf("%v: %v, %s%s", c, time.Since(begun).Round(time.Millisecond), strings.Join(one.states, ", then "), how)
}
