package state

import (
	"testing"
	"time"

	"teleport-update/find/want"
	"teleport-update/internal/version"
)

// A rollback by hand holds back the version that was left, and the wish that find names first after
// it, whether or not that was known; a wish that comes later is followed.
func TestWhatARollbackHoldsBack(t *testing.T) {
	const active, left, known, third, later = "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"
	for name, answers := range map[string][]struct {
		wish string
		held bool
	}{
		"the cluster wants the one that was left":    {{left, true}, {left, true}, {later, false}},
		"the cluster wants what it wanted before":    {{known, true}, {known, true}, {left, true}, {later, false}},
		"the cluster wants a third":                  {{third, true}, {third, true}, {left, true}, {known, false}},
		"the cluster wants what was gone back to":    {{active, false}, {left, true}, {later, false}},
		"the cluster names none, and then a third":   {{"", false}, {third, true}, {left, true}, {later, false}},
		"the cluster wants the third after the left": {{left, true}, {third, false}},
	} {
		t.Run(name, func(t *testing.T) {
			held := &Held{Version: known, Edition: version.OSS, Since: noon, LeftVersion: left, LeftEdition: version.OSS}
			running := version.Release{Version: active, Edition: version.OSS}
			for n, a := range answers {
				wish := version.Release{Version: a.wish, Edition: version.OSS}
				held.Hear(wish, running)
				c := Config{Spec: Spec{Enabled: true, ActiveVersion: active}, Status: Status{ActiveEdition: version.OSS, Held: held}}
				d := want.Decide(want.Wish{Release: wish, Due: true}, c.Agent(wish, noon), want.Turn{At: noon})
				if (d.Why == want.Held) != a.held || d.Change() == (a.held || a.wish == "" || a.wish == active) {
					t.Errorf("answer %d, %q: %+v; want held %v", n, a.wish, d, a.held)
				}
			}
		})
	}
}

func TestWhatIsRememberedOfAWish(t *testing.T) {
	wish := version.Release{Version: "15.1.2", Edition: version.OSS}
	next := noon.Add(time.Hour)
	c := Config{Spec: Spec{ActiveVersion: "15.1.1"}, Status: Status{
		ActiveEdition: version.OSS,
		Failed:        &Failed{Version: "15.1.3", Edition: version.OSS, Attempts: 1, NextAttempt: next},
		FailedBefore:  []Failed{{Version: "15.1.2", Edition: version.OSS, SHA256: "aa", Attempts: 2, NextAttempt: next}},
		Returned:      &Returned{Version: "15.1.2", Edition: version.OSS, Since: noon.Add(-time.Minute)},
	}}
	a := c.Agent(wish, noon)
	if f := (want.Failure{SHA256: "aa", Attempts: 2, NextAttempt: next}); a.Failure == nil || *a.Failure != f || a.Active != c.Active() {
		t.Errorf("of a version that failed before the last one: %+v", a)
	}
	if !a.AgainAt.Equal(noon.Add(59 * time.Minute)) {
		t.Errorf("the timer goes to it again at %v; want an hour after the return", a.AgainAt)
	}
	wish.Version = "15.1.4"
	if a := c.Agent(wish, noon); a.Failure != nil || !a.AgainAt.IsZero() {
		t.Errorf("of a third version: %+v", a)
	}
}
