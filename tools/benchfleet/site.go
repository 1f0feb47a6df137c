package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
	"teleport-update/internal/version"
)

const (
	before, target = "17.2.0", "17.2.1"
	group          = "all"
)

// clock is that of all servers.
type clock struct{ nanoseconds atomic.Int64 }

func (c *clock) now() time.Time         { return time.Unix(0, c.nanoseconds.Load()).UTC() }
func (c *clock) pass(d time.Duration)   { c.nanoseconds.Add(int64(d)) }
func (c *clock) set(t time.Time) *clock { c.nanoseconds.Store(t.UnixNano()); return c }

// site is a server without a network.
type site struct {
	store  store.Store
	stored *answers.Stored
	fleet  *inventory.Fleet
	engine *driver.Engine
}

func newSite(ctx context.Context, s store.Store, c *clock) (*site, error) {
	log := slog.New(slog.DiscardHandler)
	stored, err := answers.NewStored(ctx, answers.StoredOptions{
		Store: s, Base: find.Answer{Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute}, Clock: c.now, Log: log,
	})
	if err != nil {
		return nil, err
	}
	hosts, err := inventory.OpenFleet(ctx, inventory.FleetOptions{Store: s, Clock: c.now, Jitter: time.Minute, Named: stored.Named, Log: log})
	if err != nil {
		return nil, err
	}
	engine := driver.NewEngine(driver.Options{
		Store: s, Clock: c.now, Plans: stored.Plans(), Inventory: hosts, Answers: stored, Log: log,
	})
	return &site{s, stored, hosts, engine}, nil
}

// prepare sets a rollout of one group, a quarter of which is on its way at once.
func (s *site) prepare(ctx context.Context) error {
	if _, err := s.fleet.AddToken(ctx, adminapi.TokenRequest{Name: "web"}, store.Audit{Who: "benchfleet"}, false); err != nil {
		return err
	}
	hour := 4
	config := rollout.NewConfig()
	config.Spec.Agents.Mode = rollout.Enabled
	config.Spec.Agents.Schedules.Regular = []rollout.Group{{
		Name: group, Days: []rollout.Day{rollout.EveryDay}, StartHour: &hour, MaxInFlight: &rollout.Share{N: 25, Percent: true},
	}}
	wanted := rollout.NewVersion()
	wanted.Spec.Agents = rollout.VersionAgents{StartVersion: before, TargetVersion: target, Schedule: rollout.Critical}
	_, err := s.stored.Apply(ctx, []rollout.Resource{config, wanted}, answers.ApplyOptions{})
	return err
}

// scatter is as random as UUIDs are, and the same each time.
func scatter(host int) uint64 { return uint64(host) * 0x9e3779b97f4a7c15 }

func hostID(host int) string {
	x := scatter(host)
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(x>>32), uint16(x>>16), x>>4&0xfff, host>>12&0xfff, host)
}

func secretOf(host int) string { return "secret of the host " + hostID(host) }

// populate writes hosts that have joined, as servers keep them.
func populate(ctx context.Context, s store.Store, hosts int, now time.Time) error {
	order := make([]int, hosts)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scatter(a), scatter(b)) })
	var change store.Change
	for n, i := range order {
		sum := sha256.Sum256([]byte(secretOf(i)))
		value := fmt.Sprintf(`{"secret_sha256_half":"%s","token":"web","hostname":"ip-10-%d-%d.internal","group":"%s",`+
			`"version":"%s","edition":"oss","arch":"amd64","first_seen":%d,"last_seen":%d}`,
			hex.EncodeToString(sum[:16]), i>>8, i&255, group, before, now.Unix()-7200, now.Unix()-120)
		change.Writes = append(change.Writes, store.Write{Key: "agents/host/" + hostID(i), Value: []byte(value)})
		if len(change.Writes) == 5000 || n == hosts-1 {
			if _, err := s.Commit(ctx, change); err != nil {
				return err
			}
			change.Writes = change.Writes[:0]
		}
	}
	return nil
}
