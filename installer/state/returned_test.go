package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"teleport-update/internal/version"
)

// A host whose servers disagree goes there and back once an hour, whatever they say in which
// order, and however many versions they name; and any other change is free. The rule is said a second time here, over the list of
// all switches.
func TestTwoTruthsInTurn(t *testing.T) {
	type move struct {
		to version.Release
		at time.Time
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		release := func() version.Release {
			return version.Release{Version: fmt.Sprintf("1.%d.0", random.IntN(4)), Edition: version.OSS}
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
			// until is when the host left a version for the last time before one of its moves.
			until := func(r version.Release, before int) (left time.Time) {
				for n := 1; n <= before; n++ {
					if moves[n-1].to == r {
						left = moves[n].at
					}
				}
				return left
			}
			want, since := false, time.Time{}
			for n := 1; n < len(moves); n++ {
				if moves[n].at.Sub(until(moves[n].to, n-1)) < time.Hour { // it came back to a version that it had just left
					since, want = moves[n].at, now.Sub(moves[n].at) < time.Hour && moves[n].at.Sub(until(wish, n)) < time.Hour && moves[n].to != wish
				}
			}
			if waits != want || waits && !at.Equal(since.Add(time.Hour)) {
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

// Three truths in turn are as bad as two: the host comes to rest on the first version that it returns to.
func TestThreeTruthsInTurn(t *testing.T) {
	for _, wishes := range []string{"0120120120", "0102010201", "0121021012"} {
		now := time.Date(2026, 11, 25, 4, 0, 0, 0, time.UTC)
		c := EmptyConfig()
		c.Spec.ActiveVersion, c.Status.ActiveEdition = "1.0.0", version.OSS
		changes := 0
		for range 6 {
			for _, w := range wishes[1:] {
				now = now.Add(time.Minute)
				wish := version.Release{Version: "1." + string(w) + ".0", Edition: version.OSS}
				if _, waits := c.Status.AgainAt(wish, now); waits || wish == c.Active() {
					continue
				}
				c.RecordChange(wish, now)
				c.Spec.ActiveVersion = wish.Version
				changes++
			}
		}
		if changes > 4 {
			t.Errorf("%s: the host was changed %d times within the hour", wishes, changes)
		}
	}
}
