package installer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"teleport-update/internal/durable"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// journalSchema grows when an older updater could no longer act on a journal.
const journalSchema = 1

const maxJournalSize = 8 << 20

// phase says how far a transaction came; each is on stable storage before the
// first change that it stands for.
type phase string

const (
	// begun: the database may be being backed up and links being replaced. The
	// agent has not been told; undoing is a matter of files, unless somebody else
	// restarted it by the new links.
	begun phase = "begun"
	// switched: links and unit are the new version's. The agent may run either
	// version and may have changed the database.
	switched phase = "switched"
	// rollingBack: the old version is being put back.
	rollingBack phase = "rolling_back"
	// restored: links, unit and database are the old version's again; what is
	// left is to see the agent run. The database is not touched any more: it
	// may hold rows written since.
	restored phase = "restored"
	// proven: the new version held. From here there is only forward.
	proven phase = "proven"
	// uninstalling: links and unit are being made what the first enable found,
	// and then all of ours is removed, the journal with it. There is only
	// forward.
	uninstalling phase = "uninstalling"
)

// databasePlan is what a transaction does with the agent's database.
type databasePlan string

const (
	keepDatabase    databasePlan = "keep"    // there is none, or a person said to skip the backup
	backupDatabase  databasePlan = "backup"  // back up before the switch
	restoreDatabase databasePlan = "restore" // stop, back up, restore the target's own backup
)

// journal is the durable record of one open transaction: everything needed to
// undo it or to finish it, by another process, after a crash.
type journal struct {
	Schema  int       `json:"schema"`
	ID      string    `json:"id"`
	Phase   phase     `json:"phase"`
	Started time.Time `json:"started"`
	BootID  string    `json:"boot_id"`

	From *release `json:"from"` // nil on the first enable
	To   release  `json:"to"`

	Links     []versions.LinkChange `json:"links"`
	Unit      unitBefore            `json:"unit"`
	Agent     agentBefore           `json:"agent"`
	Database  databaseRecord        `json:"database"`
	Commit    commit                `json:"commit"`
	TakenOver takenOver             `json:"taken_over,omitzero"`

	Switched    bool   `json:"switched,omitempty"`    // links and unit were changed whole: the new version may have run
	UnitsNew    bool   `json:"units_new,omitempty"`   // the updater's own units came with this transaction
	Error       string `json:"error,omitempty"`       // why it is rolled back
	Blame       bool   `json:"blame,omitempty"`       // the error speaks against the version, not the circumstances
	Rewatched   bool   `json:"rewatched,omitempty"`   // recovery has watched the new version once
	Untouched   bool   `json:"untouched,omitempty"`   // it ended before the first link was changed
	OldServes   bool   `json:"old_serves,omitempty"`  // the old process never stopped serving
	OldFails    string `json:"old_fails,omitempty"`   // the old version is back and was tried: why it does not hold
	Reasserted  bool   `json:"reasserted,omitempty"`  // after it was proven, links, unit or enablement had to be put back
	KeepAgent   bool   `json:"keep_agent,omitempty"`  // uninstalling: the agent stays, as plain files
	Interrupted bool   `json:"interrupted,omitempty"` // a crash, a kill or a power cut lies between
}

type release struct {
	Version string          `json:"version"`
	Edition version.Edition `json:"edition"`
	SHA256  string          `json:"sha256"`
	Dir     string          `json:"dir"`
}

func (r release) target() target { return target{Version: r.Version, Edition: r.Edition} }

func releaseOf(t versions.Tree) release {
	return release{Version: t.Release.Version, Edition: t.Release.Edition, SHA256: t.SHA256, Dir: t.Dir}
}

func (r release) String() string { return describe(r.Version, r.Edition) }

// reason is why the switch is undone.
func (j *journal) reason() string {
	if j.Error != "" {
		return j.Error
	}
	return "the switch was interrupted"
}

// describe names a version for a person, the edition only where it matters.
func describe(v string, e version.Edition) string {
	if e == "" || e == version.OSS {
		return v
	}
	return v + " (" + string(e) + ")"
}

// unitBefore is the agent's unit file as it was: a regular file with Content, a
// symbolic link with Target, or neither.
type unitBefore struct {
	Path    string `json:"path"`
	Regular bool   `json:"regular,omitempty"`
	Content []byte `json:"content,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	Target  string `json:"target,omitempty"`
}

// agentBefore is the state of the agent as the transaction found it.
type agentBefore struct {
	State        agentState `json:"state"`
	UnitFile     string     `json:"unit_file_state,omitempty"`
	Program      string     `json:"program,omitempty"` // that its unit starts
	InvocationID string     `json:"invocation_id,omitempty"`
	MainPID      uint32     `json:"main_pid,omitempty"`
	// EnabledBy are the links by which it is started at boot, as they were when
	// the new version was proven.
	EnabledBy []string `json:"enabled_by,omitempty"`
}

type agentState string

const (
	agentRunning agentState = "running" // active, or on its way there
	agentFailing agentState = "failing" // failed, or waiting to be restarted
	agentStopped agentState = "stopped" // inactive, or no such unit: not ours to start
	agentUnknown agentState = "unknown" // no systemd to ask
)

// manageable reports whether the agent is to be switched over at all.
func (s agentState) manageable() bool { return s == agentRunning || s == agentFailing }

// databaseRecord says what was planned for the database and what of it is done.
type databaseRecord struct {
	Plan  databasePlan `json:"plan"`
	Path  string       `json:"path"`
	Dir   string       `json:"dir,omitempty"`   // the folder of the backup that this transaction takes
	Taken bool         `json:"taken,omitempty"` // and it is complete
	// Stop: the agent is stopped before the backup and started again after the
	// switch, instead of being told to hand over (RFD 0169 §Downgrades).
	Stop    bool `json:"stop,omitempty"`
	Skipped bool `json:"skipped,omitempty"` // a person said not to back it up
	Damaged bool `json:"damaged,omitempty"` // it cannot be backed up, and a person insisted
}

// commit is what goes into updates.yaml once the version is proven.
type commit struct {
	Spec          *Spec `json:"spec,omitempty"` // nil: only active_version changes
	Held          *Held `json:"held,omitempty"`
	SkippedBackup bool  `json:"skipped_backup,omitempty"`
}

// JournalError is a journal that this program cannot act on. Nothing
// destructive was done.
type JournalError struct {
	Reason string
	Newer  bool // a newer updater wrote it, and can act on it
}

func (e *JournalError) Error() string { return e.Reason }

func (j *journal) save(path string) error {
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := durable.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// enter records a phase durably before what it stands for is done.
func (j *journal) enter(path string, p phase) error {
	j.Phase = p
	return j.save(path)
}

// loadJournal reads the open transaction; nil when there is none.
func loadJournal(path string) (*journal, error) {
	data, err := readTrusted(path, maxJournalSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &JournalError{Reason: fmt.Sprintf("read the journal: %v", err)}
	}
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, &JournalError{Reason: fmt.Sprintf("the journal %s cannot be read: %v", path, err)}
	}
	if head.Schema > journalSchema {
		return nil, &JournalError{Newer: true, Reason: fmt.Sprintf(
			"the journal %s was written by a newer updater (schema %d, this one knows %d): run the newer teleport-update", path, head.Schema, journalSchema)}
	}
	var j journal
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return nil, &JournalError{Reason: fmt.Sprintf("the journal %s cannot be read: %v", path, err)}
	}
	switch j.Phase {
	case begun, switched, rollingBack, restored, proven, uninstalling:
	default:
		return nil, &JournalError{Reason: fmt.Sprintf("the journal %s names an unknown phase %q", path, j.Phase)}
	}
	for _, r := range []*release{&j.To, j.From} {
		if r == nil || r.Version == "" {
			continue
		}
		if clean, err := version.Parse(r.Version); err != nil || clean != r.Version {
			return nil, &JournalError{Reason: fmt.Sprintf("the journal %s names %.40q, which is not a version", path, r.Version)}
		}
	}
	return &j, nil
}
