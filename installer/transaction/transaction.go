package transaction

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// transaction is an open one. Its owner holds the update lock.
type transaction struct {
	m     *Machine
	agent Agent
	j     *openJournal
	// db is the agent's database, once it was opened: see database.
	db *backup.Database
	// took are the durations of the steps that this process has done.
	took map[string]time.Duration
	// letOthers gives back the lock of the updater that is replaced, while that is held.
	letOthers func()
}

// letGo gives back what a transaction holds, whatever became of it.
func (t *transaction) letGo() {
	t.releaseOthers()
	t.closeDatabase()
	t.agent.Close()
}

// config reads the configuration while the transaction is open, for what is to be
// written there: no agent may wait for a file that people edit. One that is lost
// is as the transaction found it. Where it cannot be read it is never overwritten, a
// person is needed, and the phase says what becomes of what was changed before.
func (t *transaction) config() (c state.Config, lost bool, err error) {
	c, lost, err = t.m.Host.Paths.LoadConfigOr(t.j.Config)
	if err != nil {
		row, _ := phaseOf(t.j.Phase)
		return c, false, &failure.NeedsPersonError{Err: failure.In(failure.Aftermath(row.cutOff(&t.j.Journal)), err)}
	}
	if lost {
		t.m.Host.Log.Warn(lostConfig, "file", t.m.Host.Paths.Config())
	}
	return c, lost, nil
}

// found is the configuration as the transaction found it. A journal of an older
// program does not have it, and then it is the one of today.
func (t *transaction) found() (state.Config, error) {
	if t.j.Config == "" {
		c, _, err := t.config()
		return c, err
	}
	return state.ParseConfig(t.j.Config)
}

const lostConfig = "updates.yaml was missing or empty and is written again from what the transaction began with"

// describeAside has status say of the last transaction that the configuration was lost and
// written again, and name what is kept aside.
func (t *transaction) describeAside(last *state.LastUpdate, lost bool) {
	if last == nil {
		return
	}
	if lost {
		last.Error += "; " + lostConfig
	}
	if kept := t.keptAside(); len(kept) > 0 {
		last.Error = fmt.Sprintf("%s; the file that was put in its way is kept as %s", last.Error, strings.Join(kept, ", "))
	}
	last.Error = strings.TrimPrefix(last.Error, "; ")
}

func (t *transaction) closeDatabase() {
	if t.db != nil {
		t.db.Close()
		t.db = nil
	}
}

// releaseOthers gives the lock back.
func (t *transaction) releaseOthers() {
	t.m.Host.TimerLater = false
	if t.letOthers != nil {
		t.letOthers()
		t.letOthers = nil
	}
}

// keptAside is what is there of what was moved out of the way.
func (t *transaction) keptAside() []string {
	return slices.DeleteFunc(slices.Clone(t.j.Aside), func(name string) bool { return !host.Exists(name) })
}

// leftOpen is what becomes of a transaction when systemd cannot be asked any more: nobody
// knows what the agent does, and nothing is done about it before it is known.
func (t *transaction) leftOpen(why error) error {
	return &failure.NeedsPersonError{Err: fmt.Errorf("the transaction to %s is left open, as it is: %w; the next run goes on with it", t.j.To,
		why)}
}

// durations are those that are long enough to tell.
func (t *transaction) durations() map[string]state.Duration {
	all := map[string]state.Duration{}
	for part, d := range t.took {
		if d = d.Round(time.Millisecond); d > 0 {
			all[part] = state.Duration(d)
		}
	}
	return all
}
