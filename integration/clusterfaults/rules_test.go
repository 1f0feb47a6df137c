//go:build hosts

package clusterfaults

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The rules find what must not be, and nothing else.
func TestTheRulesFindWhatMustNotBe(t *testing.T) {
	host := func(group, version, toldTo string) *member {
		return &member{id: group, group: group, version: version, toldTo: toldTo}
	}
	dev := func(version string) []*member {
		return []*member{host("dev", version, "2"), host("dev", version, "2"), host("dev", version, "2"), host("dev", version, "2")}
	}
	prod := func(toldTo ...string) []*member {
		hosts := dev("2")
		for _, v := range toldTo {
			hosts = append(hosts, host("prod", "1", v))
		}
		return hosts
	}
	go2 := findAnswer{"2", true}
	for name, c := range map[string]struct {
		hosts  []*member // the last one asks
		answer findAnswer
		halted string
		after  string       // halted when the process began
		before []findAnswer // what the process has told the host
		epochs int
		late   bool // the answer was asked for before those
		want   string
	}{
		"dev is done":                  {hosts: prod(""), answer: go2},
		"dev is not done":              {hosts: append(dev("1"), host("prod", "1", "")), answer: go2, want: "two groups at once"},
		"it is told to stay":           {hosts: append(dev("1"), host("prod", "1", "")), answer: findAnswer{"1", true}},
		"no version":                   {hosts: dev("2"), want: "no version"},
		"two in flight":                {hosts: prod("2", ""), answer: go2},
		"three in flight":              {hosts: prod("2", "2", ""), answer: go2, want: "at once"},
		"three, after a failover":      {hosts: prod("2", "2", ""), answer: go2, epochs: 1},
		"a second canary":              {hosts: []*member{host("dev", "1", "2"), host("dev", "1", "")}, answer: go2, want: "the canary"},
		"the canary has done so":       {hosts: []*member{host("dev", "2", "2"), host("dev", "1", "")}, answer: go2},
		"a halt is forgotten":          {hosts: prod("2"), answer: go2, halted: "prod", before: []findAnswer{{"2", false}}, want: "a halt is forgotten"},
		"two answers at once":          {hosts: prod("2"), answer: go2, halted: "prod", before: []findAnswer{{"2", false}}, late: true},
		"a halt is not known yet":      {hosts: prod("2"), answer: go2, halted: "prod"},
		"a halt from before the start": {hosts: prod("2"), answer: go2, after: "prod", want: "a halt is forgotten"},
	} {
		w := &world{t: t, db: &cluster{}, hosts: c.hosts, target: "2", halted: map[string]bool{}, epochAt: -c.epochs}
		w.halted[w.key(c.halted, "2")] = true
		p := &process{refused: map[string]time.Time{}, after: map[string]bool{w.key(c.after, "2"): true}}
		h := c.hosts[len(c.hosts)-1]
		first := time.Now()
		for _, a := range c.before {
			w.judge(p, h, a, first)
		}
		asked := time.Now()
		if c.late {
			asked = first
		}
		w.judge(p, h, c.answer, asked)
		if got := strings.Join(w.broken, "; "); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

func TestTheModelFindsAStaleRead(t *testing.T) {
	history := []porcupine.Operation{
		{Input: operation{}, Output: outcome{value: "kept", at: 7}, Call: 0, Return: 1},
		{Input: operation{write: true, value: "b", based: 7}, Output: outcome{at: 9}, Call: 2, Return: 3},
		{Input: operation{}, Output: outcome{value: "b", at: 9}, Call: 4, Return: 5},
	}
	if !porcupine.CheckOperations(model, history) {
		t.Error("a sound history is refused")
	}
	history[2].Output = outcome{value: "kept", at: 7}
	if porcupine.CheckOperations(model, history) {
		t.Error("a read of what was changed before is taken")
	}
	history[2].Output, history[1].Input = outcome{value: "b", at: 9}, operation{write: true, value: "b", based: 6}
	if porcupine.CheckOperations(model, history) {
		t.Error("a change that was based on what had changed is taken")
	}
}
