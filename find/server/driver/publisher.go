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

// publishEvery is how often a server writes its report.
const publishEvery = time.Minute

// Publisher writes the resource autoupdate_agent_report of a server: what the hosts of its share run, group by group.
// Servers whose reports are in the store share the hosts among them, so that the sum counts each host once. A server
// that comes to others writes an empty report first, for they go on to report its share until they have seen it. Two
// of the same name have the same share, and the report of one of them. It is for people and their programs; no
// rollout goes by it.
type Publisher struct {
	Name  string // of the server
	Store store.Store
	Clock func() time.Time
	// Rollout returns the one that is under way; nil for none.
	Rollout func() *rollout.Rollout
	Fleet   Reported
	Log     *slog.Logger

	last time.Time
}

// Run publishes whenever it is told to and a minute has passed, until ctx ends. Trouble with the store is
// in the log already, where it is that of the engine.
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

// Publish writes the report, where there is something to report and the last one is a minute old.
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

// servers are the names of those whose reports say something, this server's too if it has one.
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

// Reported is what hosts report.
type Reported interface {
	// CountsOfShare returns the counts of the hosts that a server reports, one of several.
	CountsOfShare(r *rollout.Rollout, server string, servers []string, now time.Time) rollout.Counts
	Len() int
}

// ServerName makes the name of a server out of that of its machine.
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
