package rules

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"teleport-update/find/rollout"
)

// machine is a simulated host: it polls find, obeys, and reports.
type machine struct {
	id, group, version string

	pinned, disabled, unhealthy, away bool

	bad     bool // updates of this host fail
	stuck   bool // updates of this host begin and never end
	told    string
	begins  time.Time // when an update that was told begins; zero for none
	ends    time.Time
	goal    string
	outcome *rollout.Outcome
	rests   time.Time // until when it backs off
	lifted  int64     // the retry for which it lifted its back-off last
}

// live lets the machine do what is due: polls is whether it asks find now.
func (h *machine) live(now time.Time, rng *rand.Rand, polls bool, answer func() findAnswer) {
	if !h.ends.IsZero() && !now.Before(h.ends) && !h.stuck {
		h.end(now)
	}
	if !h.begins.IsZero() && !now.Before(h.begins) {
		h.begins = time.Time{}
		h.ends = now.Add(time.Duration(1+rng.IntN(15)) * time.Minute)
		h.outcome = &rollout.Outcome{Target: rollout.Semver(h.goal), State: rollout.OutcomeStarted, Time: now}
	}
	if !polls {
		return
	}
	a := answer()
	h.told = ""
	if a.update {
		h.told = a.version
	}
	if a.retry != 0 && a.retry != h.lifted {
		h.rests, h.lifted = time.Time{}, a.retry
	}
	idle := h.begins.IsZero() && h.ends.IsZero()
	if a.update && a.version != h.version && idle && !h.pinned && !h.disabled && now.After(h.rests) {
		h.goal, h.begins = a.version, now.Add(time.Duration(rng.IntN(3))*time.Minute)
	}
}

func (h *machine) end(now time.Time) {
	state := rollout.OutcomeSucceeded
	if h.bad {
		state, h.rests = rollout.OutcomeFailed, now.Add(time.Hour)
	} else {
		h.version = h.goal
	}
	h.outcome = &rollout.Outcome{Target: rollout.Semver(h.goal), State: state, Time: now}
	if h.bad {
		h.outcome.BacksOffUntil = h.rests
	}
	h.ends = time.Time{}
}

// report is what the machine says, in the words of the server and of the model.
func (h *machine) report() (rollout.Heartbeat, said) {
	b := rollout.Heartbeat{
		HostID: h.id, Hostname: "host-" + h.id[:4], Group: h.group, Version: rollout.Semver(h.version),
		Pinned: h.pinned, Disabled: h.disabled, Unhealthy: h.unhealthy, Told: rollout.Semver(h.told), Outcome: h.outcome,
	}
	s := said{group: h.group, version: h.version, pinned: h.pinned, disabled: h.disabled, unhealthy: h.unhealthy, told: h.told}
	if h.outcome != nil {
		switch h.outcome.State {
		case rollout.OutcomeStarted:
			s.began = string(h.outcome.Target)
		case rollout.OutcomeFailed:
			s.failed, s.failedTime, s.backsOff = string(h.outcome.Target), h.outcome.Time, h.outcome.BacksOffUntil
		}
	}
	return b, s
}

// fleet is what the engine knows of hosts.
type fleet map[rollout.HostID]*rollout.Host

func (f fleet) All() iter.Seq[*rollout.Host] {
	return func(yield func(*rollout.Host) bool) {
		for _, h := range f {
			if !yield(h) {
				return
			}
		}
	}
}

func (f fleet) Host(id rollout.HostID) *rollout.Host { return f[id] }

// plan of a world: what a person wrote.
type sheet struct {
	timeBased, hold bool
	window          time.Duration
	groups          []wish
	critical        []wish // none: a critical version goes through groups
}

func draw(rng *rand.Rand) sheet {
	s := sheet{timeBased: rng.IntN(3) == 0, hold: rng.IntN(4) == 0, window: time.Duration(1+rng.IntN(4)) * time.Hour}
	s.groups = drawGroups(rng, s.timeBased)
	if rng.IntN(4) == 0 {
		s.critical = drawGroups(rng, s.timeBased)
	}
	return s
}

func drawGroups(rng *rand.Rand, timeBased bool) (list []wish) {
	graph := rng.IntN(3) == 0
	for i := range 1 + rng.IntN(3) {
		w := wish{
			name: []string{"dev", "staging", "prod"}[i], hour: rng.IntN(24),
			jitter: -1, timeout: -1, failure: -1, inFlight: -1, maxTimeout: -1, maxFailed: -1,
		}
		if rng.IntN(2) == 0 {
			w.days = []time.Weekday{0, 1, 2, 3, 4, 5, 6}
		}
		if !timeBased {
			w.wait, w.canaries = rng.IntN(2)*rng.IntN(5), rng.IntN(2)*rng.IntN(4)
		}
		if !timeBased && graph && i > 0 && rng.IntN(3) > 0 {
			w.requires = []string{list[rng.IntN(i)].name}
		}
		drawGuards(rng, &w)
		list = append(list, w)
	}
	return list
}

func drawGuards(rng *rand.Rand, w *wish) {
	if rng.IntN(3) == 0 {
		w.jitter = rng.IntN(600)
	}
	if rng.IntN(3) == 0 {
		w.timeout = 1800 + rng.IntN(3600)
	}
	if rng.IntN(4) == 0 {
		w.failure = rng.IntN(3600)
	}
	if rng.IntN(2) == 0 {
		w.inFlightShare = rng.IntN(2) == 0
		w.inFlight = rng.IntN(5)
		if w.inFlightShare {
			w.inFlight = 10 * rng.IntN(8)
		}
	}
	if rng.IntN(3) == 0 {
		w.maxTimeout = 10 * rng.IntN(4)
	}
	if rng.IntN(3) == 0 {
		w.maxFailed = 10 * rng.IntN(4)
	}
}

// config writes the sheet as the resource that people write.
func (s sheet) config(mode string) string {
	var b strings.Builder
	strategy := "halt-on-error"
	if s.timeBased {
		strategy = "time-based"
	}
	fmt.Fprintf(&b, "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\n")
	fmt.Fprintf(&b, "spec:\n  agents:\n    mode: %s\n    strategy: %s\n", mode, strategy)
	if s.timeBased {
		fmt.Fprintf(&b, "    maintenance_window_duration: %s\n", s.window)
	}
	if s.hold {
		fmt.Fprintf(&b, "    unmatched: hold\n")
	}
	fmt.Fprintf(&b, "    schedules:\n")
	s.list(&b, "regular", s.groups)
	s.list(&b, "critical", s.critical)
	return b.String()
}

func (s sheet) list(b *strings.Builder, schedule string, groups []wish) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprintf(b, "      %s:\n", schedule)
	for _, w := range groups {
		fmt.Fprintf(b, "      - {name: %s, start_hour: %d", w.name, w.hour)
		if len(w.days) > 0 {
			fmt.Fprintf(b, ", days: [\"*\"]")
		}
		if len(w.requires) > 0 {
			fmt.Fprintf(b, ", requires: [%s]", strings.Join(w.requires, ", "))
		}
		number := func(key string, n int) {
			if n >= 0 {
				fmt.Fprintf(b, ", %s: %d", key, n)
			}
		}
		if !s.timeBased {
			number("wait_hours", w.wait)
			number("canary_count", w.canaries)
		}
		number("jitter_seconds", w.jitter)
		number("timeout_seconds", w.timeout)
		number("failure_seconds", w.failure)
		number("max_timeout_before_halt", w.maxTimeout)
		number("max_failed_before_halt", w.maxFailed)
		if w.inFlight >= 0 {
			unit := ""
			if w.inFlightShare {
				unit = "%"
			}
			fmt.Fprintf(b, ", max_in_flight: %d%s", w.inFlight, unit)
		}
		fmt.Fprintf(b, "}\n")
	}
}

func version(start, target, schedule string) string {
	return fmt.Sprintf("kind: autoupdate_version\nmetadata: {name: autoupdate-version}\nspec:\n"+
		"  agents: {start_version: %s, target_version: %s, schedule: %s}\n", start, target, schedule)
}
