package installer

import (
	"context"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
)

// tick is one run of update, and what runs of the timer remember of each other. Only
// theirs count: what a person's command fails with, that person reads.
type tick struct {
	i       *Installer
	memory  state.Ticks
	fetches *wanted // what it asked the mirrors for
	waits   bool    // it did not, for it is not time yet
	now     *survey.Survey
}

// host is the host as it is since the run last waited, for a lock, a download or a transaction: one
// survey, whose parts are read once.
func (t *tick) host() *survey.Survey {
	if t.now == nil {
		t.now = t.i.survey()
	}
	return t.now
}

// waited is called after each wait: the host may be another since.
func (t *tick) waited() {
	if t.now != nil {
		t.now.Close()
		t.now = nil
	}
}

// over has Settle go on with the last look at the agent, if there was one since the run last waited.
func (t *tick) over() {
	t.i.seen, t.now = t.now, nil
}

// report has the find server hear how this host does.
func (t *tick) report(ctx context.Context) {
	if c, err := t.host().Config(); err == nil { // else others have said so
		t.i.heartbeats().report(ctx, c, nil)
	}
}

func (i *Installer) beginTick() *tick {
	if i.Machine.Scheduled {
		i.Processes.LetGoOfProgram() // what was needed to initialise packages
	}
	return &tick{i: i, memory: i.ticks()}
}

// tidy removes old versions that nothing needs.
func (t *tick) tidy(ctx context.Context) {
	if c, err := t.host().Config(); err == nil {
		t.i.obtainer().tidy(ctx, c)
	}
}
