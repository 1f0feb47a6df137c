package rollout

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

func (c Choice) order() Order {
	o := Order{Verb: c.Verb, Force: c.Force, To: c.To}
	if c.Group != "" {
		o.Groups = []string{c.Group}
	}
	return o
}

// said are choices in one line.
func said(list []Choice) string {
	var words []string
	for _, c := range list {
		if c.Command == "" {
			words = append(words, "nothing: "+c.Does)
			continue
		}
		words = append(words, fmt.Sprintf("%s (%s)", c.Command, c.Does))
	}
	return strings.Join(words, "; ")
}

// reaches are the hosts of a group that find tells to run a version that they do not run.
func (w *world) reaches(group string) (n int) {
	for _, h := range w.fleet.hosts {
		if a := w.find(h.Hostname); h.Group == group && a.AutoUpdate && a.Version != h.Version {
			n++
		}
	}
	return n
}

// The orders of a group are in the order of their danger, and the number of hosts in each clause is the number of hosts that
// find tells so once the order is carried out.
func TestAnOrderDoesWhatItsClauseSays(t *testing.T) {
	number := regexp.MustCompile(`tells ([0-9]+) hosts?`)
	for name, tc := range map[string]struct {
		agents string
		act    func(w *world)
		want   string
	}{
		"before its turn": {regular(`{name: dev, `+everyDay+`}`, `{name: prod, `+everyDay+`}`), func(w *world) { w.begin("Mon 08:00") },
			"rollout start dev (tells 10 hosts to update to 17.2.1); " +
				"rollout done dev (ends it: tells 10 hosts to update to 17.2.1, and prod may start)"},
		"behind a group": {regular(`{name: a, `+everyDay+`}`, `{name: dev, `+everyDay+`, max_in_flight: 2}`), func(w *world) { w.begin("Mon 08:00") },
			"rollout start --force dev (tells 10 hosts to update to 17.2.1, 2 at a time, before its turn); " +
				"rollout done dev (ends it: tells 10 hosts to update to 17.2.1)"},
		"half of its hosts": {regular(`{name: dev, ` + everyDay + `}`), func(w *world) {
			w.begin("Mon 10:30")
			w.tick()
			for i := range 5 {
				w.update(fmt.Sprint("dev-", i), "17.2.1")
			}
		}, "rollout back dev (tells 5 hosts to go back to 17.2.0); rollout done dev (ends it: tells 5 hosts to update to 17.2.1)"},
		"a canary failed": {regular(`{name: dev, ` + everyDay + `, canary_count: 3}`), func(w *world) {
			w.begin("Mon 10:30")
			w.tick()
			w.update(w.canaryNames("dev")[1], "17.2.1")
			w.fail(w.canaryNames("dev")[0])
			w.tick()
		}, "rollout back dev (tells 1 host to go back to 17.2.0); rollout retry dev (tells 3 hosts to try 17.2.1 again first); " +
			"rollout done dev (ends it: tells 9 hosts to update to 17.2.1)"},
		"canaries": {regular(`{name: dev, ` + everyDay + `, canary_count: 3}`), func(w *world) {
			w.begin("Mon 10:30")
			w.tick()
		}, "rollout back dev (ends it, and 10 hosts stay on 17.2.0); " +
			"rollout start --force dev (tells 10 hosts to update to 17.2.1, without waiting for canaries); " +
			"rollout done dev (ends it: tells 10 hosts to update to 17.2.1)"},
		"all done": {regular(`{name: dev, ` + everyDay + `}`), func(w *world) {
			w.begin("Mon 10:30")
			w.tick()
			for i := range 10 {
				w.update(fmt.Sprint("dev-", i), "17.2.1")
			}
			w.tick()
		}, "rollout back dev (tells 10 hosts to go back to 17.2.0)"},
		"rolled back": {regular(`{name: dev, ` + everyDay + `}`), func(w *world) {
			w.begin("Mon 10:30")
			w.order(Order{Verb: StartUpdate, Groups: []string{"dev"}})
			w.order(Order{Verb: Rollback, Groups: []string{"dev"}})
		}, "rollout start dev (tells 10 hosts to update to 17.2.1); rollout done dev (ends it: tells 10 hosts to update to 17.2.1)"},
		"in a window": {"strategy: time-based, " + regular(`{name: dev, `+everyDay+`}`), func(w *world) {
			w.begin("Mon 10:30")
			w.tick()
		}, "rollout back dev (ends it, and 10 hosts stay on 17.2.0); rollout done dev (ends it until its next window)"},
	} {
		w := newWorld(t, tc.agents)
		w.add("dev", 10, "17.2.0")
		tc.act(w)
		overview := Survey(w.scene())
		orders := overview.Groups[w.rollout.group("dev")].Orders
		if got := said(orders); got != tc.want {
			t.Errorf("%s: the orders are\n%s\nwant\n%s", name, got, tc.want)
		}
		before := w.rollout
		for _, c := range orders {
			w.rollout = before
			w.order(c.order())
			told, says := w.reaches("dev"), 0
			if m := number.FindStringSubmatch(c.Does); m != nil {
				fmt.Sscan(m[1], &says)
			}
			if w.group("dev").Plan != nil {
				w.now = w.now.Add(2 * time.Minute)
				w.tick()
				if told = w.reaches("dev"); told == 2 {
					continue // two at a time
				}
			}
			if told != says {
				t.Errorf("%s: %s (%s), and %d hosts are told so", name, c.Command, c.Does, told)
			}
		}
	}
}
