package transaction

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"teleport-update/installer/host"
)

var (
	seeds = flag.Int("seeds", 80, "random hosts of the property test")
	only  = flag.Uint64("seed", 0, "one random host again")
)

// TestThePromiseHoldsWhateverHappens has random things happen at random calls: of
// the updater, of systemd, of other people, of the host. Once nothing comes in the
// way any more, one boot or two ticks bring an agent that runs, on the database that
// belongs to it, with the rows that it wrote since it was put back or proven.
func TestThePromiseHoldsWhateverHappens(t *testing.T) {
	some := sampled{every: 13}
	for n := range *seeds {
		if some.skips() {
			continue
		}
		seed := uint64(n + 1)
		if *only != 0 {
			seed = *only
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			randomHost(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func randomHost(t *testing.T, r *rand.Rand) {
	fates := []fate{holds, holds, diesFirst, dies, diesLate, neverReady}
	fate := fates[r.IntN(len(fates))]
	m, kind := upgrade(t, behaviour{schema: 1 + r.IntN(2), fate: fate}), Update
	if r.IntN(3) == 0 {
		m, kind = downgrade(t, fate), Rollback
	}
	var story []string
	down := false // a person wants it so
	all := outcomes()
	meddle := func(pick func(outcome) func(*model) error) func(string) error {
		return func(call string) error {
			if r.IntN(8) > 0 {
				return nil
			}
			o := all[r.IntN(len(all))]
			do := pick(o)
			if do == nil {
				return nil
			}
			story = append(story, fmt.Sprintf("%s %s: %s", fmt.Sprint(m.calls), call, o.name))
			m.calls = nil
			down = down || o.down
			return do(m)
		}
	}
	m.before = meddle(func(o outcome) func(*model) error { return o.before })
	m.after = meddle(func(o outcome) func(*model) error { return o.after })
	for range 1 + r.IntN(6) {
		m.reachable = r.IntN(6) > 0
		var err error
		var dead bool
		switch {
		case m.down, r.IntN(5) == 0:
			story = append(story, "BOOT")
			err, dead = m.reboot()
		case r.IntN(4) == 0:
			story = append(story, "TICK")
			err, dead = m.tick()
		default:
			story = append(story, "SWITCH")
			err, dead = m.runs(func() error {
				if m.committedOn(m.to) {
					return nil
				}
				return m.transact(t.Context(), m.request(kind))
			})
		}
		story = append(story, fmt.Sprintf("ended %v, killed %v, after %v", err, dead, m.calls))
		m.calls = nil
		m.write()
	}
	m.dropHooks()
	if m.down {
		m.reboot()
	}
	for range 2 {
		if down && m.main == nil && !m.failed {
			m.startUnit() // that person wants it to run again
		}
		if err, _ := m.tick(); err != nil {
			story = append(story, fmt.Sprint("A CALM TICK ENDED WITH ", err))
			t.Error(err)
		}
		m.write()
	}
	if down && m.main == nil && !m.failed {
		m.startUnit()
	}
	if !host.Exists(m.Host.Paths.Journal()) && m.main == nil && m.failed {
		m.crashLoop() // systemd does, after its pause
	}
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	if c.Status.Unproven && m.main == nil && !host.Exists(m.Host.Paths.Journal()) {
		return // switched to while a person had the agent down: nobody could watch it
	}
	if wrong := m.closed(); wrong != nil {
		t.Errorf("%v\n%v", wrong, story)
	}
}
