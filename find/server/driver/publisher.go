package driver

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// publishEvery is how often a server writes its report.
const publishEvery = time.Minute

// Publisher writes the resource autoupdate_agent_report of a server: what the hosts run that it
// knows, group by group. It is for people and their programs; no rollout goes by it.
type Publisher struct {
	Name  string // of the server
	Store store.Store
	Clock func() time.Time
	Plans *answers.Plans
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
	plans, _, err := p.Plans.Load(ctx, current)
	if err != nil {
		return err
	}
	value, err := rollout.JSON(rollout.NewReport(p.Name, current, p.Fleet.Counts(current, plans, now), now))
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

// Reported is what hosts report.
type Reported interface {
	Counts(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time) rollout.Counts
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
