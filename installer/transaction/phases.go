package transaction

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"teleport-update/installer/state"
)

// The phases of a transaction. Each is on stable storage before the first change
// that it stands for.
const (
	begun       state.Phase = "begun"
	switched    state.Phase = "switched"
	rollingBack state.Phase = "rolling_back"
	restored    state.Phase = "restored"
	proven      state.Phase = "proven"
	replacing   state.Phase = "replacing"
)

// phase is one row of the machine. It says what a transaction may do next, what may be written down
// of it, and what a recovery makes of it, and nothing else says that.
type phase struct {
	name state.Phase
	// guarantee holds from the moment at which the phase is on stable storage.
	guarantee string
	// notes are the records that may be set. Beside them, advance writes down the step that is
	// done, and journalBoot the boot of today, in whatever phase.
	notes    []about
	next     []state.Phase // that may be entered
	succeeds bool          // updates.yaml may name its success
	// boot is what the recovery does before the agent starts, live what it does on a
	// host that is up.
	boot, live recovery
	// working says what an updater at work on the transaction is doing, cutOff what to do without one.
	// Both get the journal of the transaction.
	working, cutOff func(*state.Journal) string
}

// recovery is what happens to a transaction that was cut off: it completes "the recovery …".
// recoveries says how it is done.
type recovery string

const (
	putsFilesBack  recovery = "puts links, unit and database back; the first tick sees the agent run"
	undoesIt       recovery = "undoes it"
	watchesAgain   recovery = "watches the new version once more, and goes on if it is healthy; else undoes it"
	undoesTheRest  recovery = "goes on undoing it"
	leavesFiles    recovery = "does nothing, for nothing about the files is open"
	seesOldRun     recovery = "sees the old version run, and closes it"
	seesFilesThere recovery = "puts back links, unit and enablement of the new version, where somebody took them away"
	commits        recovery = "commits it"
	replacesRest   recovery = "goes on with it, and commits the version"
)

// phases is the table. The first row is a transaction that is not written down yet, or whose
// journal is lost and written again.
func phases() []phase {
	return []phase{
		{
			name:      "",
			guarantee: "Nothing was changed.",
			notes:     []about{aboutAgent}, // of a take-over, which is proven at once
			next:      []state.Phase{begun, switched, rollingBack, proven},
		},
		{
			name: begun,
			guarantee: "The database may be being backed up and links being replaced. The agent has not been told; undoing is a matter of files, " +
				"unless somebody else restarted it by the new links.",
			notes: []about{aboutDatabase, aboutVerdict, aboutAgent, aboutWatch},
			next:  []state.Phase{switched, rollingBack},
			boot:  putsFilesBack, live: undoesIt,
			working: atWork, cutOff: transactionCutOff,
		},
		{
			name:      switched,
			guarantee: "Links and unit are the new version's. The agent may run either version and may have changed the database.",
			notes:     []about{aboutDatabase, aboutVerdict, aboutAgent, aboutWatch, aboutAside},
			next:      []state.Phase{proven, rollingBack},
			boot:      putsFilesBack,
			live:      watchesAgain,
			working:   atWork, cutOff: transactionCutOff,
		},
		{
			name:      rollingBack,
			guarantee: "The old version is being put back.",
			notes:     []about{aboutAgent, aboutWatch, aboutDatabase, aboutAside},
			next:      []state.Phase{rollingBack, restored},
			boot:      putsFilesBack, live: undoesTheRest,
			working: atWork, cutOff: transactionCutOff,
		},
		{
			name: restored,
			guarantee: "Links, unit and database are the old version's again; " +
				"what is left is to see the agent run. The database is not touched any more: " +
				"it may hold rows written since.",
			notes:   []about{aboutAgent, aboutWatch, aboutVerdict, aboutAside},
			boot:    leavesFiles,
			live:    seesOldRun,
			working: atWork, cutOff: transactionCutOff,
		},
		{
			name:      proven,
			guarantee: "The new version is proven: its agent was healthy. From here there is only forward.",
			notes:     []about{aboutAgent, aboutPackages, aboutAside, aboutReplaced},
			next:      []state.Phase{replacing},
			succeeds:  true,
			boot:      seesFilesThere,
			live:      commits,
			working:   atWork, cutOff: transactionCutOff,
		},
		{
			name: replacing,
			guarantee: "The new version is proven, and the files of the updater that the host had before are being removed. " +
				"There is only forward.",
			notes:    []about{aboutAgent, aboutPackages, aboutAside, aboutReplaced},
			next:     []state.Phase{replacing},
			succeeds: true,
			boot:     seesFilesThere,
			live:     replacesRest,
			working:  atWork, cutOff: transactionCutOff,
		},
	}
}

// phaseOf returns the row of a phase; ok is false for one that this program does
// not know.
func phaseOf(name state.Phase) (row phase, ok bool) {
	rows := phases()
	n := slices.IndexFunc(rows, func(p phase) bool { return p.name == name })
	if n < 0 {
		return phase{}, false
	}
	return rows[n], true
}

func atWork(j *state.Journal) string {
	return fmt.Sprintf("switching to %s (%s) since %s", j.To, j.Phase, timeOf(j))
}

func transactionCutOff(j *state.Journal) string {
	if why := j.Watch.OldFails; why != "" {
		return fmt.Sprintf("the transaction to %s failed and was undone, but the version before is not healthy either (%s); "+
			"the next run tries it once more", j.To, why)
	}
	if why := j.Database.InTheWay; why != "" {
		return fmt.Sprintf("the transaction to %s failed and is not undone: %s; "+
			"the agent is left as it is, and the next run tries again once nothing is in the way", j.To, why)
	}
	return fmt.Sprintf("a transaction to %s was cut off (%s); the next run, or `teleport-update update`, closes it", j.To, j.Phase)
}

func timeOf(j *state.Journal) string { return j.Started.Format(time.RFC3339) }

// about is what a note is about, as the table of phases lists it.
type about string

const (
	aboutVerdict  about = "verdict"
	aboutAgent    about = "agent"
	aboutWatch    about = "watch"
	aboutDatabase about = "database"
	aboutPackages about = "packages"
	aboutAside    about = "aside"
	aboutReplaced about = "replaced"
)

// advancing is a transaction on its way to a new version: it prepares one, has its steps done, and
// commits it or has it undone.
type advancing struct {
	t   *transaction
	req checked
}

// errNeedsBoot means that the shutdown of the host cut a transaction off.
var errNeedsBoot = errors.New("the host is shutting down: the transaction is undone at the next boot")
