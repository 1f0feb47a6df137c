package decision

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"teleport-update/installer/state"
)

const (
	RecordsBroken      Type = "records_broken"
	TransactionRunning Type = "transaction_running"
	TransactionOpen    Type = "transaction_open"
	PolicyBroken       Type = "policy_broken"
)

// records are about the records that all other checks rely on.
func records() []Check {
	return []Check{
		{RecordsBroken, Fault, NeedsAttention, "records", "the updater's records cannot be read or relied on, or do not fit " +
			"the links or the agent's database", 0, recordsBroken},
		{TransactionRunning, Busy, Updating, "transaction", "an updater is at work", 0, transactionRunning},
		{TransactionOpen, Fault, NeedsAttention, "transaction", "a transaction was cut off; the next run closes it", 0, transactionOpen},
		{PolicyBroken, Fault, NeedsAttention, "policy", "the policy of the host's owner is missing although it was there, or " +
			"cannot be read: the version is not changed", readable, policyBroken},
	}
}

func recordsBroken(h *facts, f *finder) error {
	c, err := h.Config()
	if err != nil {
		f.foundError("", err)
		return nil
	}
	if c.Spec.ActiveVersion != "" {
		if err := state.CheckStore(h.Paths().Versions()); err != nil {
			f.foundError("", err)
			return nil
		}
	}
	t, err := h.Transaction()
	if err != nil {
		advice := "`teleport-update update`, or the next run, goes on if it can, and else says what to do"
		if bad, ok := errors.AsType[*state.JournalError](err); ok && bad.Newer != nil {
			advice = bad.Newer.Remedy()
		}
		f.found(nil, strings.TrimSuffix(err.Error(), advice)+"; ", advice)
		return nil
	}
	if t != nil {
		return nil
	}
	if s := h.Shared; s != nil && h.Now().Sub(s.Last) < sharedFor {
		f.found(&s.Last, fmt.Sprintf("%s are on one data folder, %s: they overwrite one another's records, and their agents one another's "+
			"database. ", strings.Join(s.Hosts, " and "), h.Paths().DataDir),
			"stop the agent and `teleport-update.timer` on one of them, and give it a folder of its own")
	}
	why, err := h.Fits(h)
	if why != nil {
		h.misfit(f, why)
	}
	return err
}

// sharedFor is how long a report of two hosts that ask in turn counts: several runs of a slow timer.
const sharedFor = 24 * time.Hour

// misfit says what to do about records that do not fit the host.
func (h *facts) misfit(f *finder, why error) {
	if h.c.Spec.ActiveVersion != "" {
		f.foundError("", why)
		return
	}
	remedy := "`teleport-update enable`, nothing updates it before that"
	if h.c.Spec.Enabled && !h.c.Spec.Pinned {
		remedy = "`teleport-update update`, or the timer's next run: the update to the version that the cluster wants repairs it"
	}
	f.found(nil, fmt.Sprintf("%s names no active version, but the updater may have installed the agent: %v; ", h.Paths().Config(), why),
		remedy)
}

func transactionRunning(h *facts, f *finder) error {
	if t, err := h.Transaction(); err == nil && t != nil && t.Running {
		what, _, _ := strings.Cut(t.Working, " since ")
		f.foundWith(&t.Started, what, "", t.Working)
	}
	return nil // an error is a broken record
}

func transactionOpen(h *facts, f *finder) error {
	if t, err := h.Transaction(); err == nil && t != nil && !t.Running {
		text, advice := t.CutOff, "`teleport-update update`"
		if t.Database.InTheWay != "" {
			advice = "remove what is in the way, then `teleport-update update`"
		}
		// The run that began the transaction may have failed to undo it.
		if last := h.Ticks(); last.Error != "" && last.Ended.After(t.Started) {
			text += "; the last run failed: " + last.Error
		}
		// A full file system may have kept that run from writing down why it failed.
		if t.Full != nil {
			text += fmt.Sprintf("; no run can close it now: %v", t.Full)
			advice = "free some space there, then `teleport-update update`"
		}
		f.found(&t.Started, text+"; ", advice)
	}
	return nil
}

func policyBroken(h *facts, f *finder) error {
	if why := h.Policy.Broken; why != nil {
		f.foundError("the agent goes on, and its version is not changed: ", why)
	}
	return nil
}
