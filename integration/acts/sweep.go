//go:build hosts

package others

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// everything asks for the whole sweep instead of the part that every run of the
// tests has.
var everything = os.Getenv("FAULTS") == "all"

// combination is one moment of a transaction, one version and one action.
type combination struct {
	phase
	action
	to      string
	kills   bool // the updater is killed there, too
	insists bool // find wants the version again at once
}

func (c combination) String() string {
	how := "goes on"
	if c.boots {
		how = "boot"
	} else if c.kills {
		how = "killed"
	}
	return fmt.Sprintf("%s, to %s, %s: %s", c.phase.name, c.to, how, c.action.name)
}

// combinations are all that there are: adding an action, or a phase, is one entry in
// its table.
func combinations() (all []combination) {
	for a, act := range actions() {
		for p, ph := range phases {
			for v, moments := range [][]moment{ph.healthy, ph.fails} {
				if moments == nil || ph.boots && act.live {
					continue
				}
				c := combination{phase: ph, action: act, to: healthy, kills: ph.boots || (a+p+v)%2 == 1, insists: (a+p+v)%3 == 0}
				if v == 1 {
					if c.to = dies; act.serves {
						c.to = unready
					}
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// counts are what a sweep saw.
type counts struct{ tried, excused, open, violations atomic.Int64 }

// Whatever others do to a host, and whenever in a transaction: after one run of the updater an
// agent runs on the database that belongs to it, while the action is in force and once
// it is undone; more runs leave it in peace; and nothing of the others' is lost.
func TestWhateverOthersDoAnAgentRunsOnItsOwnDatabase(t *testing.T) {
	var n counts
	begun := time.Now()
	t.Run("on", func(t *testing.T) {
		for _, kind := range kinds {
			var next atomic.Int64
			all := chosen(t, kind.own)
			for h := range min(kind.hosts, len(all)) {
				t.Run(fmt.Sprintf("host %d %s", h+1, kind.name), func(t *testing.T) {
					w := newShared(t, kind.own)
					for n.violations.Load() < 40 {
						i := next.Add(1) - 1
						if int(i) >= len(all) {
							return
						}
						w.meets(all[i], &n)
					}
				})
			}
		}
	})
	t.Logf("actions of others: %d combinations of %d, with an exception in force %d, open %d, violations: %d (in %v)",
		n.tried.Load(), len(combinations()), n.excused.Load(), n.open.Load(), n.violations.Load(), time.Since(begun).Round(time.Second))
}

// kinds are the hosts that there are, and how many of each share the combinations.
var kinds = []struct {
	name  string
	own   bool
	hosts int
}{{"whose agent is root", false, 4}, {"whose agent has a user of its own", true, 2}}

// part is how many combinations there are for each one that every run of the tests has.
// It shares no factor with the moments, so that each has its share.
const part = 27

// chosen are the combinations of this run on hosts of a kind. OTHERS is a pattern of
// their names, FAULTS_POINTS=FIRST-LAST/STRIDE by their number.
func chosen(t *testing.T, own bool) (some []combination) {
	t.Helper()
	named := regexp.MustCompile(os.Getenv("OTHERS"))
	first, last, stride := 0, 1<<30, 1
	if !everything && os.Getenv("OTHERS") == "" {
		stride = part
	}
	if points := os.Getenv("FAULTS_POINTS"); points != "" {
		if n, err := fmt.Sscanf(points, "%d-%d/%d", &first, &last, &stride); n < 2 {
			t.Fatalf("FAULTS_POINTS=%s is not FIRST-LAST or FIRST-LAST/STRIDE: %v", points, err)
		}
	}
	for n, c := range combinations() {
		if c.own == own && named.MatchString(c.String()) && n >= first && n <= last && (n-first)%stride == 0 {
			some = append(some, c)
		}
	}
	t.Logf("%d combinations", len(some))
	return some
}

// meets puts the host back, has one combination happen to it, and counts what came of
// that.
func (w *shared) meets(c combination, n *counts) {
	w.T.Helper()
	n.tried.Add(1)
	begun := time.Now()
	w.reset()
	one := &trial{shared: w, combination: c, least: map[string]int{oldVersion: w.rows}}
	one.run()
	if one.excused && len(one.problems) == 0 {
		n.excused.Add(1)
	}
	why := openBecause(c.String())
	if len(one.problems) > 0 && why != "" {
		n.open.Add(1)
		w.T.Logf("OPEN, %s: %v\n\t%s", why, c, strings.Join(one.problems, "\n\t"))
	} else if len(one.problems) > 0 {
		n.violations.Add(1)
		w.T.Errorf("VIOLATION: %v\n\t%s\nwhat the updater said:\n%s", c, strings.Join(one.problems, "\n\t"), one.said.String())
	}
	how := ""
	if one.excused {
		how = ", an exception"
	}
	w.T.Logf("%v: %v%s", c, time.Since(begun).Round(time.Millisecond), how)
}
