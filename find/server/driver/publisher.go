package driver

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// publishEvery is the time between two reports of a server.
const publishEvery = time.Minute

// Publisher writes the resource autoupdate_agent_report of a server: the versions on the hosts of its share, group by
// group. Servers with reports in the store share the hosts among them, so that the sum counts each host once. A new
// server first writes an empty report, since the others include its share until they have seen it. Servers of the
// same name have the same share, and write one report. The report is for people and their programs; no rollout
// depends on it.
type Publisher struct {
	Name  string // of the server
	Store store.Store
	Clock func() time.Time
	// Rollout returns the rollout in progress, or nil.
	Rollout func() *rollout.Rollout
	Fleet   Reported
	Log     *slog.Logger

	last time.Time
}

// Run publishes on a tick if a minute has passed, until ctx ends. If the store is in trouble, the engine
// has logged that already.
func (p *Publisher) Run(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if err := p.Publish(ctx); err != nil && ctx.Err() == nil {
			p.Log.Debug("the report of this server was not written", "error", err)
		}
	}
}

// Publish writes the report if there are hosts and a rollout, and the last report is a minute old.
func (p *Publisher) Publish(ctx context.Context) error {
	now, current := p.Clock(), p.Rollout()
	if now.Sub(p.last) < publishEvery || current == nil || p.Fleet.Len() == 0 {
		return nil
	}
	servers, err := p.servers(ctx, now)
	if err != nil {
		return err
	}
	var n rollout.Counts
	if len(servers) == 0 || slices.Contains(servers, p.Name) {
		n = p.Fleet.CountsOfShare(current, p.Name, servers, now)
	}
	value, err := rollout.JSON(rollout.NewAgentReport(p.Name, current, n, now))
	if err != nil {
		return err
	}
	write := store.Write{Key: rollout.ReportKey(p.Name), Value: value, Expires: now.Add(rollout.ReportLife)}
	for attempt := 1; ; attempt++ {
		_, err := p.Store.Commit(ctx, store.Change{Writes: []store.Write{write}})
		conflict, ok := errors.AsType[*store.ConflictError](err)
		if !ok || attempt == parts.Attempts {
			if err == nil {
				p.last = now
			}
			return err
		}
		write.Based = conflict.Found
	}
}

// servers returns the names of servers with a current report, this server's too if it has one.
func (p *Publisher) servers(ctx context.Context, now time.Time) (names []string, err error) {
	items, _, err := p.Store.List(ctx, rollout.ReportKey(""))
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		list, err := rollout.Parse(item.Value)
		if err != nil || len(list) != 1 {
			continue // of another version: nobody reads it here
		}
		if r, is := list[0].(*rollout.AgentReport); is && now.Sub(r.Spec.Timestamp).Abs() <= rollout.ReportLife {
			names = append(names, r.Metadata.Name)
		}
	}
	return names, nil
}

// Reported is a fleet with its counts.
type Reported interface {
	// CountsOfShare returns the counts of the hosts in the share of one of several servers.
	CountsOfShare(r *rollout.Rollout, server string, servers []string, now time.Time) rollout.Counts
	Len() int
}

// ServerName makes a server's name from its machine's.
func ServerName(hostname string) string {
	name := strings.Map(func(r rune) rune {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-.", r) {
			return '-'
		}
		return r
	}, strings.ToLower(hostname))
	if name = strings.Trim(name[:min(len(name), 63)], "-."); name == "" {
		return "find"
	}
	return name
}
