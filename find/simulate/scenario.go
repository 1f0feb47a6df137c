// Package simulate tries a schedule on hosts that do not exist, with a clock that runs
// as fast as the machine can. It uses the functions of a find server:
// rollout.Next steps the rollout, rollout.Snapshot answers the hosts, and
// rollout.Count counts their reports. Only the hosts and the time are made up.
//
// The same Scenario has the same Timeline, on any machine.
package simulate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// Scenario is a fleet, a version for it, and how many hosts have trouble with it.
type Scenario struct {
	Config  *rollout.Config
	Version *rollout.Version
	// Hosts is the number of hosts of each group; "" is for hosts that name no group.
	Hosts map[string]int
	// Fails and Lost are fractions of the hosts of a group, 0 to 1: those on which the version is
	// rolled back, and those that never report again once they have begun to update. "" is for the
	// groups that are not named.
	Fails, Lost map[string]float64
	// Poll is how often a host asks and reports, plus a random time below Spread.
	Poll, Spread time.Duration
	// Update is how long an update takes, half of it or half as much again by lot.
	Update time.Duration
	// Jitter is the jitter of groups that have none of their own.
	Jitter time.Duration
	Begin  time.Time
	// For ends the simulation if nothing else does.
	For  time.Duration
	Seed uint64
}

// MaxHosts bounds the hosts that are kept in memory and counted at each tick.
const MaxHosts = 1_000_000

// Check returns why a scenario cannot be tried.
func (s *Scenario) Check() error {
	if s.Config == nil || s.Version == nil {
		return errors.New("a configuration and a version are needed")
	}
	known := map[string]bool{"": true}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		known[name] = true
		if s.Hosts[name] < 0 || s.Hosts[name] > MaxHosts {
			return fmt.Errorf("group %q: %d is not a number of hosts from 0 to %d", name, s.Hosts[name], MaxHosts)
		}
		total += s.Hosts[name]
	}
	if total > MaxHosts {
		return fmt.Errorf("%d hosts are more than %d", total, MaxHosts)
	}
	for _, rates := range []map[string]float64{s.Fails, s.Lost} {
		for _, name := range slices.Sorted(maps.Keys(rates)) {
			if rate := rates[name]; math.IsNaN(rate) || rate < 0 || rate > 1 {
				return fmt.Errorf("group %q: a rate is a part from 0%% to 100%%", name)
			}
			if !known[name] {
				return fmt.Errorf("group %q has a rate, but no hosts", name)
			}
		}
	}
	for _, d := range []time.Duration{s.Poll, s.Update, s.For} {
		if d < time.Second {
			return fmt.Errorf("%s is too short: seconds are what resources are written in", d)
		}
	}
	if s.Spread < 0 || s.Jitter < 0 {
		return errors.New("the spread and the jitter must not be negative")
	}
	return nil
}

// Timeline is the events of a simulation and how it ended.
type Timeline struct {
	Events []Event   `json:"events"`
	Rules  []RuleUse `json:"rules"`
	// End is the rollout when nothing more happened by itself, or the time was over.
	End   rollout.Overview `json:"end"`
	Ended time.Time        `json:"ended"`
	// Why says why the simulation ended.
	Why string `json:"why"`
}

// Event is a line of the timeline.
type Event struct {
	Time   time.Time      `json:"time"`
	Group  string         `json:"group,omitempty"` // empty: the whole rollout
	What   string         `json:"what"`
	Reason rollout.Reason `json:"reason,omitempty"` // of a step of the engine
	step   rollout.Step
}

// RuleUse counts how often a rule of the engine has moved a group.
type RuleUse struct {
	Reason rollout.Reason `json:"reason"`
	Times  int            `json:"times"`
	Rule   string         `json:"rule"`
}
