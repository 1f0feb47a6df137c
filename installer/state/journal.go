package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/folder"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
)

// MaxJournalSize is far more than a journal has, in bytes.
const MaxJournalSize = 8 << 20

// journalRoom is the room, in bytes, that a journal keeps for what is added to it: reasons and names of files.
const journalRoom = 16 << 10

// Phase says how far a transaction came. The table of package transaction says what each phase
// means, and what may follow.
type Phase string

// Journal is the durable record of one open transaction: everything needed to
// undo it or to finish it, by another process, after a crash.
type Journal struct {
	Head
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	BootID  string    `json:"boot_id"` // the kernel's, of the boot of its entries about processes
	// UnitsStart tells one start of the host's units in that boot from another: a soft reboot starts them
	// again. It is empty if not known, as in the journal of a program that did not ask.
	UnitsStart string `json:"units_start,omitempty"`

	Phase   Phase   `json:"phase"`
	Reached string  `json:"reached,omitempty"` // the furthest step that was done, by name
	Verdict Verdict `json:"verdict,omitzero"`  // why it is undone

	From *Tree `json:"from,omitempty"` // nil on the first enable
	To   Tree  `json:"to,omitzero"`

	Agent    Agent        `json:"agent,omitzero"`
	Watch    Watch        `json:"watch,omitzero"`
	Links    []LinkChange `json:"links,omitempty"`
	Unit     UnitFile     `json:"unit,omitzero"`
	OwnUnits OwnUnits     `json:"own_units,omitzero"`
	// ClusterReport is the drop-in by which the agent reports to its cluster. A program that does not
	// know this field leaves a drop-in behind that does no harm.
	ClusterReport ClusterReport `json:"cluster_report,omitzero"`
	Database      Database      `json:"database,omitzero"`
	Commit        Commit        `json:"commit,omitzero"`
	// Config is the text of updates.yaml as the transaction found it, whatever happens to the file
	// meanwhile; empty if there was none.
	Config   string   `json:"config,omitempty"`
	Packages Packages `json:"packages,omitzero"`
	// Replaces means that the host has another updater, which goes once the new version is proven.
	Replaces bool `json:"replaces,omitempty"`
	// Replaced are the files of that updater that go.
	Replaced []LinkChange `json:"replaced,omitempty"`

	// Aside has the other names of files that somebody put in the way of the transaction.
	Aside []string `json:"aside,omitempty"`
}

// Verdict is why a transaction is undone, and what that speaks against. The zero Verdict means that
// it is not undone, or that nobody knows why.
type Verdict struct {
	Reason  string  `json:"reason,omitempty"`
	Against Against `json:"against,omitempty"`
	// ErrorCode is the reason as clusters know it; see LastUpdate.
	ErrorCode int `json:"error_code,omitempty"`
	// NeverBegan means that systemd began no process of the version, which speaks against it only if systemd does begin
	// one of the version before.
	NeverBegan bool `json:"never_began,omitempty"`
}

// Against is what a verdict speaks against.
type Against string

const (
	// AgainstVersion: the version backs off.
	AgainstVersion Against = "version"
	// AgainstCircumstances: the version is tried again at the next run.
	AgainstCircumstances Against = "circumstances"
	// AgainstInterruption: a crash, a kill, a power cut or a person lies between. It
	// is counted, and speaks against the version when it comes again and again.
	AgainstInterruption Against = "interruption"
)

// Agent is the state of the agent as the transaction found it, and as it is to
// be again.
type Agent struct {
	State        AgentState `json:"state,omitempty"`
	UnitFile     string     `json:"unit_file_state,omitempty"`
	Program      string     `json:"program,omitempty"` // that its unit starts
	InvocationID string     `json:"invocation_id,omitempty"`
	MainPID      uint32     `json:"main_pid,omitempty"`
	// EnabledBy are the links by which it is started at boot, as they were when
	// the new version was proven.
	EnabledBy []string `json:"enabled_by,omitempty"`
	// Dependents are other units that were active and go down with the agent; an older program
	// leaves them down.
	Dependents []string `json:"dependents,omitempty"`
	// Start means that links, unit or enablement had to be put back after the new version was proven,
	// so that the agent may have been stopped.
	Start bool `json:"start,omitempty"`
	// ReloadOwed means that its unit was changed, and that systemd, which did not answer, has not read
	// it yet.
	ReloadOwed bool `json:"reload_owed,omitempty"`
}

// AgentState is what the agent's unit does.
type AgentState string

const (
	AgentRunning AgentState = "running" // active, or on its way there
	AgentFailing AgentState = "failing" // failed, or waiting to be restarted
	AgentStopped AgentState = "stopped" // inactive, or no such unit: not ours to start
	AgentUnknown AgentState = "unknown" // no systemd to ask
)

// Wanted reports whether somebody wants the agent to run: it is switched over.
func (s AgentState) Wanted() bool { return s == AgentRunning || s == AgentFailing }

// Watch is what watches found out.
type Watch struct {
	Again     bool   `json:"again,omitempty"`      // recovery has watched the new version once
	OldServes bool   `json:"old_serves,omitempty"` // the old process never stopped serving
	OldFails  string `json:"old_fails,omitempty"`  // the old version is back and was tried: why it is not healthy
	// Over means that the old version is back and was watched. Only the outcome is left to write down,
	// which is not possible yet.
	Over bool `json:"over,omitempty"`
}

// LinkChange is one name in the link folder that a transaction changes, with what
// is needed to undo that.
type LinkChange struct {
	Path string `json:"path"`
	// Target is what the link will lead to; empty removes the link.
	Target string `json:"target,omitempty"`
	// PutBack is the name of a copy in the folder of originals: the regular file
	// that takes the link's place.
	PutBack string `json:"put_back,omitempty"`
	// Before is what an undoing puts back.
	Before Before `json:"before,omitzero"`
	// Stood is the target of the link when the transaction was planned, if that is not Before.
	Stood string `json:"stood,omitempty"`
}

// Before is what stood at a path: nothing (the zero Before), a link, or a
// regular file.
type Before struct {
	// Link is what the link led to.
	Link string `json:"link,omitempty"`
	// Saved is the name of the regular file's copy in the folder of originals.
	// It holds the digest of the content, so that a second save is the same.
	Saved string `json:"saved,omitempty"`
}

// UnitFile is the agent's unit file as it was: a regular file with Content, a
// symbolic link with Target, or neither.
type UnitFile struct {
	Path    string `json:"path"`
	Regular bool   `json:"regular,omitempty"`
	Content []byte `json:"content,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	Target  string `json:"target,omitempty"`
}

// OwnUnits is about the updater's own units.
type OwnUnits struct {
	Fresh bool `json:"fresh,omitempty"` // they came with this transaction
}

// ClusterReport is about the drop-in by which the agent reports to its cluster.
type ClusterReport struct {
	Fresh bool `json:"fresh,omitempty"` // it came with this transaction
}

// DatabasePlan is what a transaction does with the agent's database.
type DatabasePlan string

const (
	KeepDatabase    DatabasePlan = "keep"    // there is none, or a person said to skip the backup
	BackupDatabase  DatabasePlan = "backup"  // back up before the transaction
	RestoreDatabase DatabasePlan = "restore" // stop, back up, restore the target's own backup
)

// Database says what was planned for the database, and how much of it is done.
type Database struct {
	Plan DatabasePlan `json:"plan,omitempty"`
	Path string       `json:"path,omitempty"`
	// Folder is the folder of Path: the work is done in no other.
	Folder folder.ID `json:"folder,omitzero"`
	Dir    string    `json:"dir,omitempty"`   // the folder of the backup that this transaction takes
	Taken  bool      `json:"taken,omitempty"` // and it is complete
	// SecondDir is the folder in which the backup has a second name, even if Dir goes, which is a part
	// of a version's folder; empty if it has none.
	SecondDir string `json:"second_dir,omitempty"`
	// Size and CRC32C are the backup's, by which it is known even without its backup.yaml.
	Size   int64  `json:"size,omitempty"`
	CRC32C string `json:"crc32c,omitempty"`
	// Restored means that the undoing put it back.
	Restored bool `json:"restored,omitempty"`
	// InTheWay is why it cannot go back yet.
	InTheWay string `json:"in_the_way,omitempty"`
	// Stop means that the agent is stopped before the backup and started again after the transaction,
	// and does not hand over (RFD 0169 §Downgrades).
	Stop    bool `json:"stop,omitempty"`
	Skipped bool `json:"skipped,omitempty"` // a person said not to back it up
	Damaged bool `json:"damaged,omitempty"` // it cannot be backed up, and a person insisted
	// Aside is the name in its folder under which the damaged database is kept while another is in its
	// place.
	Aside  string `json:"aside,omitempty"`
	Absent bool   `json:"absent,omitempty"` // there was none
	// Foreign means that it belongs to a program that somebody else put in the place of the version before.
	Foreign bool `json:"foreign,omitempty"`
}

// Commit is what goes into updates.yaml once the version is proven.
type Commit struct {
	Spec          *Spec `json:"spec,omitempty"` // nil: only active_version changes
	Held          *Held `json:"held,omitempty"`
	SkippedBackup bool  `json:"skipped_backup,omitempty"`
}

// Packages is about packages that brought an agent before the updater did
// (RFD 0169 §Runtime, enable steps 2, 3 and 13).
type Packages struct {
	Found []Package `json:"found,omitempty"`
	// Own are the packages' files in folders that their removal does not see.
	Own []string `json:"own,omitempty"`
	// Kept are files of the agent's that their removal would take, with copies;
	// Noted says that all of this is complete.
	Kept  []KeptFile `json:"kept,omitempty"`
	Noted bool       `json:"noted,omitempty"`
	// Version is the version that a package brought, which is kept to go back to.
	Version *version.Release `json:"version,omitempty"`
}

// KeptFile is a file of the agent's with its copy, or a link on the way to one.
type KeptFile struct {
	Path   string `json:"path"`
	Saved  string `json:"saved,omitempty"`
	Target string `json:"target,omitempty"` // of a link
}

// JournalError means that a journal was read, or found to be no file of ours, and that this program
// cannot act on it. Nothing destructive was done.
type JournalError struct {
	Reason string
	Newer  *NewerError // why, if a newer updater wrote it
}

func (e *JournalError) Error() string {
	if e.Newer != nil {
		return e.Reason + ": " + e.Newer.Remedy()
	}
	return e.Reason
}

// Save writes the journal durably. Once the journal is there, it is written again without more room or inodes.
func (j *Journal) Save(path string) error {
	if err := j.Stamp(j); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := durable.WriteSpared(path, append(data, '\n'), journalRoom); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// LoadJournal reads the open transaction; nil without one. A *JournalError means that the file says
// nothing to act on. Any other error, as of the disk or for want of memory, means that it could not
// be read this time: its content is not known.
func LoadJournal(path string) (*Journal, error) {
	data, err := regular.Read(path, MaxJournalSize, regular.NoLink|regular.Sealed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if failure.Is[*regular.UnsuitableError](err) {
		return nil, &JournalError{Reason: fmt.Sprintf("read the journal: %v", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var j Journal
	if err := Decode(data, &j); err != nil {
		newer, _ := errors.AsType[*NewerError](err)
		return nil, &JournalError{Reason: fmt.Sprintf("the journal %s cannot be read: %v", path, err), Newer: newer}
	}
	for _, t := range []*Tree{&j.To, j.From} {
		if t != nil && t.Version != "" && !isVersion(t.Version) {
			return nil, &JournalError{Reason: fmt.Sprintf("the journal %s names %.40q, which is not a version", path, t.Version)}
		}
	}
	return &j, nil
}

// Boot names the boot of the journal's entries about processes: the kernel's id, and "/" and the start of the units if
// that is known.
func (j *Journal) Boot() string {
	if j.UnitsStart == "" {
		return j.BootID
	}
	return j.BootID + "/" + j.UnitsStart
}

// SetBoot sets what Boot returns.
func (j *Journal) SetBoot(name string) { j.BootID, j.UnitsStart, _ = strings.Cut(name, "/") }
