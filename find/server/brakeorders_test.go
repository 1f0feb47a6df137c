package server

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
)

// liftings are the orders that let a halted group go on, and how it is then.
var liftings = map[string]struct {
	orders []rollout.Order
	states string
	told   bool
}{
	"retry":                         {[]rollout.Order{{Verb: rollout.Retry}}, "active", true},
	"mark-done":                     {[]rollout.Order{{Verb: rollout.MarkDone}}, "done", true},
	"rollback":                      {[]rollout.Order{{Verb: rollout.Rollback}}, "rolledback", true}, // to the start version
	"a rollback, and another start": {[]rollout.Order{{Verb: rollout.Rollback}, {Verb: rollout.StartUpdate}}, "active", true},
}

func (c *control) order(list []rollout.Order) {
	c.t.Helper()
	for _, o := range list {
		c.clock.pass(time.Second)
		o.Who, o.Groups = "uid 0", []string{"dev"}
		if _, err := c.engine.Order(c.t.Context(), o, false); err != nil {
			c.t.Fatal(err)
		}
	}
}

// A server that is cut off from the store holds a halt. Others have halted the group as well, and people have put right what
// was wrong and let it go on: the halt does not come back with the server.
func TestAHaltThatPeopleHaveLiftedDoesNotComeBack(t *testing.T) {
	for name, tc := range liftings {
		t.Run(name, func(t *testing.T) {
			w, other, _, _ := braking(t)
			away := &awayStore{Store: w.other}
			cut := other.again(away)
			away.away.Store(true)
			for _, s := range []*reportWorld{cut, other} {
				s.says(0, "dev", "17.2.0", func(b *find.Heartbeat) { failedAt("17.2.1", "it broke")(b) })
				s.engine.Tick(t.Context())
			}
			if held := strings.Join(cut.stored.Held(), "\n"); !strings.Contains(held, "not yet written: dev") || other.states() != "active!" {
				t.Fatalf("%q is held, and the group is %s\n%s", held, other.states(), w.log.String())
			}
			other.order(tc.orders)
			if got := other.states(); got != tc.states {
				t.Fatalf("after the order the group is %s", got)
			}
			away.away.Store(false)
			cut.stored.Refresh(t.Context())
			if held := cut.stored.Held(); cut.told() != tc.told || len(held) > 0 {
				t.Errorf("hosts are told to update: %t; %q is held", cut.told(), held)
			}
			cut.clock.pass(time.Second)
			cut.engine.Tick(t.Context())
			if got := other.states(); got != tc.states {
				t.Errorf("after a look of the server that was cut off, the group is %s", got)
			}
		})
	}
}

// Nobody has heard of the halt but the server that was cut off: it is in the store once the server is back.
func TestAHaltOfAServerThatWasCutOffIsWritten(t *testing.T) {
	w, other, _, _ := braking(t)
	away := &awayStore{Store: w.other}
	cut := other.again(away)
	away.away.Store(true)
	cut.says(0, "dev", "17.2.0", func(b *find.Heartbeat) { failedAt("17.2.1", "it broke")(b) })
	cut.engine.Tick(t.Context())
	for range 3 { // counts are written meanwhile
		cut.clock.pass(time.Minute)
		other.said(1, "dev", "17.2.1", nil)
		other.tick()
	}
	away.away.Store(false)
	if err := cut.stored.Refresh(t.Context()); err != nil || cut.told() {
		t.Errorf("%v; hosts are told to update: %t", err, cut.told())
	}
	cut.tick()
	if got := other.states(); got != "active!" {
		t.Errorf("the group is %s", got)
	}
}
