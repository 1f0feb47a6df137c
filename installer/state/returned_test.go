package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"teleport-update/internal/version"
)

// A host whose servers disagree goes there and back once an hour, whatever they say in which
// order; and any other change is free. The rule is said a second time here, over the list of
// all switches.
func TestTwoTruthsInTurn(t *testing.T) {
	type move struct {
		to version.Release
		at time.Time
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		release := func() version.Release {
			return version.Release{Version: fmt.Sprintf("1.%d.0", random.IntN(3)), Edition: version.OSS}
		}
		now := time.Date(2026, 11, 25, 4, 0, 0, 0, time.UTC)
		c := EmptyConfig()
		moves := []move{{release(), now}}
		c.Spec.ActiveVersion, c.Status.ActiveEdition = moves[0].to.Version, moves[0].to.Edition
		for range 60 {
			now = now.Add(time.Duration(1+random.IntN(40)) * time.Minute)
			wish := release()
			if wish == c.Active() {
				continue
			}
			at, waits := c.Status.AgainAt(wish, now)
			n := len(moves)
			want := n >= 3 && moves[n-1].to == moves[n-3].to && moves[n-2].to == wish &&
				moves[n-1].at.Sub(moves[n-2].at) < time.Hour && now.Sub(moves[n-1].at) < time.Hour
			if waits != want || waits && !at.Equal(moves[n-1].at.Add(time.Hour)) {
				t.Fatalf("seed %d: after %v, %s is wanted at %v: waits %v until %v; want %v", seed, moves, wish.Version, now, waits, at, want)
			}
			if waits {
				continue
			}
			c.RecordChange(wish, now)
			before := c.Active()
			c.Status.PreviousVersion, c.Status.PreviousEdition = before.Version, before.Edition
			c.Spec.ActiveVersion, c.Status.ActiveEdition = wish.Version, wish.Edition
			if random.IntN(3) == 0 { // an attempt that fails is no change
				c.Status.LastUpdate = &LastUpdate{Time: now, Target: "9.9.9", TargetEdition: version.OSS, Result: RolledBack}
			}
			moves = append(moves, move{wish, now})
		}
	}
}

func TestAClockThatWasSetBackHoldsNoTransactionUp(t *testing.T) {
	r := version.Release{Version: "1.1.0", Edition: version.OSS}
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	s := Status{Returned: &Returned{Version: r.Version, Edition: r.Edition, Since: noon}}
	for now, want := range map[time.Time]bool{noon: true, noon.Add(59 * time.Minute): true, noon.Add(time.Hour): false, noon.Add(-time.Minute): false} {
		if _, waits := s.AgainAt(r, now); waits != want {
			t.Errorf("at %v it waits: %v", now, waits)
		}
	}
}
