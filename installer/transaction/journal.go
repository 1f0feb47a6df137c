package transaction

import (
	"cmp"
	"fmt"
	"slices"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/installer/state"
	"teleport-update/internal/folder"
	"teleport-update/internal/version"
)

// openJournal is the journal of one open transaction, and the only way to write in it: it takes
// only entries and notes that the row of its phase lists.
type openJournal struct {
	state.Journal
	path string
	save func(*state.Journal) error // durably
}

func newOpenJournal(path string, j *state.Journal) *openJournal {
	return &openJournal{Journal: *j, path: path, save: func(j *state.Journal) error { return j.Save(path) }}
}

// load reads the record of the open transaction; nil without one. Its errors are
// state.LoadJournal's.
func load(path string) (*openJournal, error) {
	j, err := state.LoadJournal(path)
	if j == nil || err != nil {
		return nil, err
	}
	if _, ok := phaseOf(j.Phase); !ok || j.Phase == "" {
		return nil, unknown(j, fmt.Sprintf("the journal %s names an unknown phase %q", path, j.Phase))
	}
	if j.Reached != "" && !slices.ContainsFunc(steps(), func(s step) bool { return s.name == j.Reached }) {
		return nil, unknown(j, fmt.Sprintf("the journal %s names an unknown step %q", path, j.Reached))
	}
	return newOpenJournal(path, j), nil
}

// unknown returns the error for a journal that says something this program does not know. A newer program
// that named no readers is able to act on the journal all the same, so the journal is not kept aside.
func unknown(j *state.Journal, what string) error {
	if j.Schema <= state.Schema {
		return &state.JournalError{Reason: what}
	}
	head := j.Head
	head.ReadableFrom = head.Schema
	newer := &state.NewerError{Head: head}
	return &state.JournalError{Reason: fmt.Sprintf("%s: %v", what, newer), Newer: newer}
}

// enter writes a phase down, durably, before the changes that it stands for. After an error the
// transaction is in the phase that it was in.
func (r *openJournal) enter(p state.Phase) error {
	row, _ := phaseOf(r.Phase)
	if !slices.Contains(row.next, p) {
		return fmt.Errorf("write the journal: the phase %q cannot follow %q", p, r.Phase)
	}
	before := r.Phase
	r.Phase = p
	if err := r.save(&r.Journal); err != nil {
		r.Phase = before
		return err
	}
	return nil
}

// advance notes that a step is done, durably if another phase begins with that. After an error the
// step counts as not done.
func (r *openJournal) advance(s step) error {
	before := r.Reached
	r.Reached = s.name
	if s.enters == "" {
		return nil
	}
	if err := r.enter(s.enters); err != nil {
		r.Reached = before
		return err
	}
	return nil
}

// enterReplacing notes the files that are removed, and enters the phase of that removal.
func (r *openJournal) enterReplacing(files []state.LinkChange) error {
	if err := r.set(aboutReplaced, func(j *state.Journal) { j.Replaced = files }); err != nil {
		return err
	}
	return r.enter(replacing)
}

// setEnabledBy notes the links that enable the agent when a version is proven.
func (r *openJournal) setEnabledBy(links []string) error {
	return r.set(aboutAgent, func(j *state.Journal) { j.Agent.EnabledBy = links })
}

// assume is enter without the write, for a disk that has no room for it.
func (r *openJournal) assume(p state.Phase) { r.Phase = p }

// set changes a part that the phase allows to be changed. The next entry writes it down.
func (r *openJournal) set(what about, change func(*state.Journal)) error {
	row, _ := phaseOf(r.Phase)
	if !slices.Contains(row.notes, what) {
		return fmt.Errorf("write the journal: nothing is noted about the %s in the phase %q", what, r.Phase)
	}
	change(&r.Journal)
	return nil
}

// journal is set, durably.
func (r *openJournal) journal(what about, change func(*state.Journal)) error {
	if err := r.set(what, change); err != nil {
		return err
	}
	return r.flush()
}

// flush writes down what was set, without an entry.
func (r *openJournal) flush() error { return r.save(&r.Journal) }

// setVerdict notes why the transaction is undone. It is written down when the undoing begins.
func (r *openJournal) setVerdict(against state.Against, reason string) error {
	return r.set(aboutVerdict, func(j *state.Journal) { j.Verdict = state.Verdict{Reason: reason, Against: against} })
}

// journalAgainst changes what the verdict speaks against.
func (r *openJournal) journalAgainst(against state.Against) error {
	return r.journal(aboutVerdict, func(j *state.Journal) { j.Verdict.Against = against })
}

// setErrorCode adds to the verdict the code by which clusters know its reason.
func (r *openJournal) setErrorCode(code int) error {
	return r.set(aboutVerdict, func(j *state.Journal) { j.Verdict.ErrorCode = code })
}

// setUnhealthy is setVerdict for a version that was not healthy, with the other results of its
// watch.
func (r *openJournal) setUnhealthy(reason string, u *health.UnhealthyError) error {
	err := r.setOldServes(u.OldServes)
	if u.Prevented != nil {
		return cmp.Or(err, r.setVerdict(state.AgainstCircumstances, reason))
	}
	if err != nil || !u.Stopped {
		return cmp.Or(err, r.set(aboutVerdict, func(j *state.Journal) {
			j.Verdict = state.Verdict{Reason: reason, Against: state.AgainstVersion, NeverBegan: u.NeverBegan}
		}))
	}
	// A person stopped the agent in the middle of the watch: nothing is known about the version, and
	// that person has to start the agent again.
	return cmp.Or(r.setAgent(state.AgentStopped), r.setVerdict(state.AgainstInterruption, reason))
}

// journalSecondWatch notes that a recovery watches the new version again: once.
func (r *openJournal) journalSecondWatch(yes bool) error {
	return r.journal(aboutWatch, func(j *state.Journal) { j.Watch.Again = yes })
}

// setOldServes notes that the old process never stopped serving, and is left alone. If a run is
// killed before it is written down, the next run finds it out again.
func (r *openJournal) setOldServes(yes bool) error {
	return r.set(aboutWatch, func(j *state.Journal) { j.Watch.OldServes = yes })
}

// journalOldStopped notes that the old process, which never stopped serving, is about to be
// stopped.
func (r *openJournal) journalOldStopped() error {
	return r.journal(aboutWatch, func(j *state.Journal) { j.Watch.OldServes = false })
}

// journalOldFails notes that the old version, put back, is not healthy, and why.
func (r *openJournal) journalOldFails(reason string) error {
	return r.journal(aboutWatch, func(j *state.Journal) { j.Watch.OldFails = reason })
}

// journalOver notes that the old version was brought back and watched: only the end of the
// transaction is left to write down.
func (r *openJournal) journalOver() error {
	if r.Watch.Over {
		return nil
	}
	return r.journal(aboutWatch, func(j *state.Journal) { j.Watch.Over = true })
}

// setAgent notes whether the agent is to run.
func (r *openJournal) setAgent(s state.AgentState) error {
	return r.set(aboutAgent, func(j *state.Journal) { j.Agent.State = s })
}

// journalStarted notes that somebody started an agent that was down, so it is to run.
func (r *openJournal) journalStarted() error {
	return r.journal(aboutAgent, func(j *state.Journal) { j.Agent.State = state.AgentRunning })
}

// journalBoot notes that the host was booted since: processes from before do not run. down means
// that systemd did not start the agent at this boot. A version that was not proven is not tried
// again. dependents are the units that depend on the agent and are up.
func (r *openJournal) journalBoot(id string, down bool, dependents []string) error {
	r.SetBoot(id)
	r.Agent.Dependents = dependents
	err := r.setOldServes(false)
	if down {
		err = cmp.Or(err, r.setAgent(state.AgentStopped))
	}
	if err != nil {
		return err
	}
	if r.Phase == restored {
		return r.flush()
	}
	return r.enter(rollingBack)
}

// journalReloadOwed notes whether systemd still has to read the files that were changed.
func (r *openJournal) journalReloadOwed(owed bool) error {
	return r.journal(aboutAgent, func(j *state.Journal) { j.Agent.ReloadOwed = owed })
}

// journalReconciled notes that files of a proven version are about to be put back, so the agent may
// be down.
func (r *openJournal) journalReconciled() error {
	return r.journal(aboutAgent, func(j *state.Journal) { j.Agent.Start = true })
}

// journalBackup notes that the backup of the database is complete, and its sum, by which it is
// recognized; second is the folder in which it has another name, if it has one.
func (r *openJournal) journalBackup(sum backup.Sum, second string) error {
	return r.journal(aboutDatabase, func(j *state.Journal) {
		j.Database.Taken, j.Database.Size, j.Database.CRC32C, j.Database.SecondDir = true, sum.Size, sum.CRC32C, second
	})
}

// journalDatabaseAside notes under which name the damaged database is kept.
func (r *openJournal) journalDatabaseAside(name string) error {
	return r.journal(aboutDatabase, func(j *state.Journal) { j.Database.Aside = name })
}

// setNotExchanged notes that the database is still the old version's, with all that was done to it
// since its backup.
func (r *openJournal) setNotExchanged() error {
	return r.set(aboutDatabase, func(j *state.Journal) { j.Database.Plan = state.BackupDatabase })
}

// journalNoData notes that the agent's data were removed, so that nothing is restored: later data were made since, as if there
// had been none when the transaction began.
func (r *openJournal) journalNoData() error {
	return r.journal(aboutDatabase, func(j *state.Journal) {
		j.Database.Taken, j.Database.Absent, j.Database.Folder = false, true, folder.ID{}
	})
}

// setInTheWay notes why the database cannot go back yet; an empty why means that it can.
func (r *openJournal) setInTheWay(why string) error {
	return r.set(aboutDatabase, func(j *state.Journal) { j.Database.InTheWay = why })
}

// journalInTheWay is setInTheWay, durably: status shows it.
func (r *openJournal) journalInTheWay(why string) error {
	if r.Database.InTheWay == why {
		return nil
	}
	return r.journal(aboutDatabase, func(j *state.Journal) { j.Database.InTheWay = why })
}

// setRestored notes whether the database is the old version's again, so that it is not restored a
// second time, over what was written since.
func (r *openJournal) setRestored(yes bool) error {
	return r.set(aboutDatabase, func(j *state.Journal) { j.Database.Restored = yes })
}

// journalAside notes the new name of a file that is about to be moved out of the way.
func (r *openJournal) journalAside(name string) error {
	return r.journal(aboutAside, func(j *state.Journal) { j.Aside = append(j.Aside, name) })
}

// journalPackages notes what is to stay of packages that are about to be removed.
func (r *openJournal) journalPackages(own []string, kept []state.KeptFile, was *version.Release) error {
	return r.journal(aboutPackages, func(j *state.Journal) {
		j.Packages.Own, j.Packages.Kept, j.Packages.Version, j.Packages.Noted = own, kept, was, true
	})
}

// reached reports whether a step was done, no matter what came after it.
func (r *openJournal) reached(name string) bool {
	index := func(name string) int {
		return slices.IndexFunc(steps(), func(s step) bool { return s.name == name })
	}
	return r.Reached != "" && index(r.Reached) >= index(name)
}

// Description is an open transaction as a person sees it.
type Description struct {
	state.Journal
	Working string // what an updater at work on it does
	CutOff  string // what to do if none is at work
}

// Describe reads the open transaction; nil without one. Its errors are state.LoadJournal's.
func Describe(path string) (*Description, error) {
	j, err := load(path)
	if j == nil || err != nil {
		return nil, err
	}
	row, _ := phaseOf(j.Phase)
	return &Description{j.Journal, row.working(&j.Journal), row.cutOff(&j.Journal)}, nil
}
