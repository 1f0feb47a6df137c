package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"teleport-update/internal/durable"
	"teleport-update/internal/procfs"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
)

// Ticks is what the runs of the timer remember from one to the next. It lies in /run
// and is of one boot: a reboot may have ended whatever was wrong.
type Ticks struct {
	DataDir string `json:"data_dir"` // whose ticks these are
	BootID  string `json:"boot_id"`
	// Booted is when the host booted, by the clock of the other times; zero if nobody knows.
	Booted time.Time `json:"booted,omitzero"`
	// Unreachable is set while find cannot be reached.
	Unreachable *Unreachable `json:"unreachable,omitempty"`
	Failing     *Failing     `json:"failing,omitempty"`
	// Agent is the agent as the last run found it.
	Agent    *AgentSeen `json:"agent,omitempty"`
	Unstable *Unstable  `json:"unstable,omitempty"`
	// Ended is when a run of the timer last wrote down how it ended, and Error its error; empty if it
	// ended well.
	Ended time.Time `json:"ended,omitzero"`
	Error string    `json:"error,omitempty"`
	// Good is when a command that a person gave, or a run of the timer, last ended well.
	Good time.Time `json:"good,omitzero"`
	// Tables is when the tables of a healthy agent's database were last looked at.
	Tables time.Time `json:"tables,omitzero"`
	// Over is when a run of the timer was last over, also a run that says nothing about the host: another updater kept it
	// from beginning, or somebody ended it.
	Over time.Time `json:"over,omitzero"`
	// Waiting is the run that waits for the end of its jitter.
	Waiting *Waiting `json:"waiting,omitempty"`

	asWritten time.Time // the latest of Ended, Good and Over, by the clock of then
	ahead     time.Time // of the times that were dropped because they are in the future, the latest
}

// LastTrace is the latest moment at which the file shows a command at work; zero if it shows none. systemd may keep its
// moments by the clock of then although the clock was set since, so this is the later moment of the two clocks.
func (t Ticks) LastTrace() time.Time { return later(t.asWritten, t.latest()) }

// Ahead is the latest time in the file that is in the future although nobody set the clock in this boot; zero if there is none.
func (t Ticks) Ahead() time.Time { return t.ahead }

// latest is the latest of the moments at which a command ended.
func (t Ticks) latest() time.Time { return later(later(t.Ended, t.Good), t.Over) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Waiting is a run that has not begun its work yet.
type Waiting struct {
	PID   int       `json:"pid"`
	Start uint64    `json:"start"` // of the process, which tells it from another one of that PID
	Until time.Time `json:"until"`
}

// Live reports whether the run is still there: a killed one cannot take back what it
// wrote.
func (w *Waiting) Live(processes procfs.FS) bool {
	p := processes.Process(w.PID)
	return p != nil && p.Start == w.Start
}

// Unreachable means that find cannot be reached.
type Unreachable struct {
	Since time.Time `json:"since"`
	Runs  int       `json:"runs"` // of the timer, in a row
	Error string    `json:"error"`
}

// Failing is a host whose runs of the timer fail.
type Failing struct {
	Count int       `json:"count"` // runs that failed, in a row
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// NextAttempt is when the mirror is asked again; zero means at the next run.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	Spaced      int       `json:"spaced,omitempty"` // how often the mirror was left alone so far
	Error       string    `json:"error"`
	OfFind      bool      `json:"of_find,omitempty"` // find did not say what the cluster wants
	// Cause is what the failure depends on: once it changes, the mirror is asked at once.
	Cause Cause `json:"cause"`
}

// Cause is all that the failure to fetch a release depends on, as far as it is known.
type Cause struct {
	version.Release
	Sources string `json:"sources"`             // the templates
	Need    int64  `json:"need,omitempty"`      // bytes, if there was less:
	At      string `json:"at,omitempty"`        // a path there
	SHA256  string `json:"announced,omitempty"` // by the mirrors; empty if they said nothing
	Policy  string `json:"policy,omitempty"`    // names the rules of the host's owner; empty without any
}

// Waits reports whether it is not yet time for the next attempt. An attempt further off than a day
// comes from a clock that jumped, and counts as due.
func (f *Failing) Waits(now time.Time) bool {
	return f != nil && f.NextAttempt.After(now) && f.NextAttempt.Sub(now) < 24*time.Hour
}

// AgentSeen is the agent at the end of a run of the timer.
type AgentSeen struct {
	Version  string `json:"version"`
	Restarts uint32 `json:"restarts"` // by systemd itself, since somebody started it
	// OfHost means that it did not come up, and the host was the cause: none of its restarts speaks against the version.
	OfHost bool `json:"of_host,omitempty"`
}

// Unstable is a version that crashes again and again after it was proven.
type Unstable struct {
	version.Release
	Count    int       `json:"count"` // runs of the timer that found it so, in a row
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
	Restarts uint32    `json:"restarts"` // that the last of these runs found
}

// LoadTicks returns what the runs of the timer remember for a data folder and a boot: nothing if
// another wrote it, or it cannot be read. Its times are by the clock as it is now.
func LoadTicks(path, dataDir, bootID string, clock Clock) Ticks {
	var t Ticks
	known := path != "" && bootID != "" && load(path, &t)
	if !known || t.DataDir != dataDir || t.BootID != bootID {
		t = Ticks{DataDir: dataDir, BootID: bootID}
	}
	t.follow(clock)
	return t
}

// Save writes them, if there is a place for them. They are not synced: /run is in
// memory.
func (t Ticks) Save(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return WriteForRoot(path, append(data, '\n'))
}

// WriteForAll writes a file of /run that everybody may read.
func WriteForAll(path string, data []byte) error { return inRun(path, data, 0o644) }

// WriteForRoot writes a file of /run that only root may read.
func WriteForRoot(path string, data []byte) error { return inRun(path, data, 0o600) }

func inRun(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return replace(path, data, mode)
}

// load reads a file of JSON that nobody but root wrote, and reports whether it could.
func load(path string, into any) bool {
	data, err := regular.Read(path, MaxConfigSize, regular.NoLink|regular.Sealed)
	return err == nil && json.Unmarshal(data, into) == nil
}

// unfinished is the ending of the name of a file that is being written.
const unfinished = ".new"

// DropUnfinished removes what is left of a killed write of the history or of find's answer. The next write would do so,
// but there may be none.
func DropUnfinished(p Paths) error {
	return errors.Join(durable.UnlinkNoSync(p.History()+unfinished), durable.UnlinkNoSync(p.LastAnswer()+unfinished))
}

// replace puts a file in its place whole, and does not sync it.
func replace(path string, data []byte, mode os.FileMode) error {
	temp := path + unfinished
	_ = os.Remove(temp) // whatever it is: it is neither followed nor waited for
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}
