package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Host is what its own authenticated reports say about a host. All times are the
// server's: the clock of a host is nothing to measure with.
//
// A store of hosts must keep every field, above all Failed: if it loses a failure, a
// group may go on that should halt.
type Host struct {
	ID        HostID // the UUID of the agent's host_uuid
	UpdaterID HostID // zero for none
	Hostname  string
	Group     string // as the host names it
	Version   Semver // of the agent that runs
	Edition   string
	Arch      string
	Pinned    bool
	Disabled  bool
	Unhealthy bool // its agent is down
	// Findings of its owner's policy on its version; they decide nothing.
	BelowMinimum, Unsigned bool

	Cloned bool // others report with its secret

	FirstSeen time.Time // of the reports without a long pause
	LastSeen  time.Time

	// Told is the version to which the host says that it shall update, and since when
	// it has said so without a pause.
	Told Event
	// Begun is when it said that it begins to update, and has not ended.
	Begun Event
	// Failed is its last failure. It stays even if the host reaches the version later:
	// the version did fail here once.
	Failed Failure
}

// Event is something that happened on the way to a version.
type Event struct {
	Target Semver
	At     time.Time
}

// Failure is an update that failed or was rolled back.
type Failure struct {
	Event
	Error string
	// Outcome is the host's own time of the failure. It tells a repeated report from a
	// new failure.
	Outcome time.Time
	// Until is when the host tries the target again, by its own clock; zero if it
	// does not say.
	Until time.Time
}

// Heartbeat is one report of a host: after each poll, and when an update begins and
// ends.
type Heartbeat struct {
	HostID string `json:"host_id" yaml:"host_id"`
	// Sequence grows with each report, and BootID is the kernel's. They decide which
	// reports are taken.
	Sequence  int64  `json:"sequence,omitempty" yaml:"sequence,omitempty"`
	BootID    string `json:"boot_id,omitempty" yaml:"boot_id,omitempty"`
	UpdaterID string `json:"updater_id,omitempty" yaml:"updater_id,omitempty"`
	Hostname  string `json:"hostname,omitempty" yaml:"hostname,omitempty"`
	Group     string `json:"group,omitempty" yaml:"group,omitempty"`
	Version   Semver `json:"version,omitempty" yaml:"version,omitempty"`
	Edition   string `json:"edition,omitempty" yaml:"edition,omitempty"`
	Arch      string `json:"arch,omitempty" yaml:"arch,omitempty"`
	Pinned    bool   `json:"pinned,omitempty" yaml:"pinned,omitempty"`
	Disabled  bool   `json:"disabled,omitempty" yaml:"disabled,omitempty"`
	Unhealthy bool   `json:"unhealthy,omitempty" yaml:"unhealthy,omitempty"`

	BelowMinimum bool `json:"below_minimum,omitempty" yaml:"below_minimum,omitempty"`
	Unsigned     bool `json:"unsigned,omitempty" yaml:"unsigned,omitempty"`
	// Told is the version of find's last answer, if it said to update now.
	Told Semver `json:"told,omitempty" yaml:"told,omitempty"`
	// Outcome is the result of the last update, which may be long ago.
	Outcome *Outcome `json:"outcome,omitempty" yaml:"outcome,omitempty"`
}

// Outcome is the result of an update.
type Outcome struct {
	Target Semver       `json:"target" yaml:"target"`
	State  OutcomeState `json:"state" yaml:"state"`
	Error  string       `json:"error,omitempty" yaml:"error,omitempty"`
	Time   time.Time    `json:"time" yaml:"time"` // by the host's clock
	// BacksOffUntil is when a host on which the target failed tries it again.
	BacksOffUntil time.Time `json:"backs_off_until,omitzero" yaml:"backs_off_until,omitempty"`
}

const (
	maxHostID   = 128
	maxHostname = 253
	maxWord     = 40
	maxError    = 4096
)

// Check returns why a report is invalid: the words of a host go into resources, logs
// and terminals.
func (b *Heartbeat) Check() error {
	if b.HostID == "" {
		return errors.New("host_id: it is missing")
	}
	fields := []struct {
		name, value string
		limit       int
	}{
		{"host_id", b.HostID, maxHostID}, {"boot_id", b.BootID, maxHostID}, {"updater_id", b.UpdaterID, maxHostID}, {"hostname", b.Hostname,
			maxHostname},
		{"group", b.Group, maxGroupName}, {"edition", b.Edition, maxWord}, {"arch", b.Arch, maxWord},
	}
	if b.Outcome != nil {
		if b.Outcome.Target == "" || b.Outcome.State == "" || b.Outcome.Time.IsZero() {
			return errors.New("outcome: it has no target, no state or no time")
		}
		if len(b.Outcome.Error) > maxError {
			return fmt.Errorf("outcome.error: it is longer than %d bytes", maxError)
		}
	}
	for _, f := range fields {
		switch {
		case len(f.value) > f.limit:
			return fmt.Errorf("%s: it is longer than %d bytes", f.name, f.limit)
		case !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, unicode.IsControl):
			return fmt.Errorf("%s: %s is not plain text", f.name, excerpt(f.value))
		}
	}
	return nil
}

// Take takes a report, which has passed Check, at a moment.
func (h *Host) Take(b Heartbeat, now time.Time) {
	if now.Sub(h.LastSeen) > PresentFor {
		h.FirstSeen = now
	}
	h.LastSeen = now
	h.ID, h.Group, h.Version = ParseHostID(b.HostID), b.Group, b.Version
	if b.UpdaterID != "" {
		h.UpdaterID = ParseHostID(b.UpdaterID)
	}
	h.Hostname = cmp.Or(b.Hostname, h.Hostname)
	h.Edition, h.Arch = cmp.Or(b.Edition, h.Edition), cmp.Or(b.Arch, h.Arch)
	h.Pinned, h.Disabled, h.Unhealthy = b.Pinned, b.Disabled, b.Unhealthy
	h.BelowMinimum, h.Unsigned = b.BelowMinimum, b.Unsigned
	if b.Told == "" {
		h.Told = Event{}
	} else if h.Told.Target != b.Told {
		h.Told = Event{b.Told, now}
	}
	if b.Outcome != nil {
		h.takeOutcome(*b.Outcome, now)
	}
}

func (h *Host) takeOutcome(o Outcome, now time.Time) {
	switch o.State {
	case OutcomeStarted:
		if h.Begun.Target != o.Target {
			h.Begun = Event{o.Target, now}
		}
		return
	case OutcomeFailed, OutcomeRolledBack:
		if h.Failed.Target != o.Target || !h.Failed.Outcome.Equal(o.Time) {
			h.Failed = Failure{Event: Event{o.Target, now}, Error: o.Error, Outcome: o.Time}
		}
		h.Failed.Until = time.Time{}
		if !o.BacksOffUntil.IsZero() {
			h.Failed.Until = moment(o.BacksOffUntil)
		}
	}
	h.Begun = Event{}
}

// Omitted returns why no count includes the host at a moment, or "".
func (h *Host) Omitted(now time.Time) string { return h.omitted(now) }

func (h *Host) omitted(now time.Time) string {
	switch {
	case h.Cloned:
		return omitCloned
	case !h.present(now):
		return omitAbsent
	case h.Pinned:
		return omitPinned
	case h.Disabled:
		return omitDisabled
	case now.Sub(h.FirstSeen) < settled:
		return omitNew
	}
	return ""
}

func (h *Host) present(now time.Time) bool { return now.Sub(h.LastSeen) <= PresentFor }

// trial is one attempt of a group to bring its hosts to a version.
type trial struct {
	target   Semver
	begun    bool
	since    time.Time
	limit    time.Duration // jitter and timeout
	silence  time.Duration
	complete bool // see Counts
	now      time.Time
}

func newTrial(r *Rollout, g *GroupStatus, opts CountOptions) trial {
	config := g.config()
	jitter := opts.Jitter
	if config.JitterSeconds != nil {
		jitter = config.jitter()
	}
	return trial{
		target: r.Spec.TargetVersion, begun: g.State == Canarying || g.State == Active, since: g.StartTime,
		limit: jitter + config.timeout(), silence: config.silence(), complete: opts.Complete, now: opts.Now,
	}
}

// progress is how far a host has come in a trial that it was admitted to.
type progress int

const (
	silent    progress = iota // has not said that it shall update
	underway                  // has said that it shall update, or has begun
	updated                   // is on the target
	failed                    // has failed, and is not on the target
	gone                      // had begun, and has not reported since
	timedOut                  // said that it shall update, and its time is over; or was never heard of
	withdrawn                 // a person took it out: pinned, disabled
)

// finished reports whether the host no longer holds a place in flight.
func (p progress) finished() bool { return p != silent && p != underway }

// hasFailed reports whether the host has failed in the trial, once or more often,
// whatever came of it later.
func (h *Host) hasFailed(t trial) bool {
	return h.Failed.Target == t.target && !h.Failed.At.Before(t.since)
}

// wasTold reports whether the host has said in the trial that it shall update: for the
// first time or, as after a retry, again. Without a report in the trial, it has not.
func (h *Host) wasTold(t trial) bool {
	return h.Told.Target == t.target && !later(h.Told.At, h.LastSeen).Before(t.since)
}

// backsOff reports whether the host does not try a version before some later moment.
func (h *Host) backsOff(target Semver, now time.Time) bool {
	return h.Failed.Target == target && h.Failed.Until.After(now)
}

// progress judges a host. It concludes from silence only if this server would have
// heard from the host.
func (h *Host) progress(t trial) progress {
	told := h.wasTold(t)
	begun := h.Begun.Target == t.target && !h.Begun.At.Before(t.since)
	switch {
	case h.Version == t.target:
		return updated
	case h.hasFailed(t):
		return failed
	case h.Pinned || h.Disabled || h.Cloned:
		return withdrawn
	case begun && t.complete && t.now.Sub(h.LastSeen) > t.silence:
		return gone
	case told && t.complete && !t.now.Before(later(h.Told.At, t.since).Add(t.limit)):
		return timedOut
	case told || begun:
		return underway
	}
	return silent
}

// HostID is a host's identity in 16 bytes: its UUID or, for a name that is not a UUID,
// such as an EC2 host's, a digest of the name.
type HostID [16]byte

// ParseHostID takes any name of a host.
func ParseHostID(s string) HostID {
	var id HostID
	if parseUUID(&id, s) {
		return id
	}
	sum := sha256.Sum256([]byte(s))
	copy(id[:], sum[:])
	return id
}

func (id HostID) String() string { return string(id.append(nil)) }

func (id HostID) append(to []byte) []byte {
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return append(to, text[:]...)
}

// ParseUUID takes a UUID in the usual form, and no other name.
func ParseUUID(s string) (id HostID, ok bool) {
	ok = parseUUID(&id, s) && id != HostID{}
	return id, ok
}

// parseUUID takes the usual form, in letters of any case. It runs at every question
// of a host.
func parseUUID(id *HostID, s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	at := 0
	for i := range id {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		high, low := hexDigit[s[at]], hexDigit[s[at+1]]
		if high < 0 || low < 0 {
			return false
		}
		id[i] = byte(high)<<4 | byte(low)
		at += 2
	}
	return true
}

// hexDigit is -1 for a byte that is not a hexadecimal digit.
var hexDigit = func() (table [256]int8) {
	for i := range table {
		table[i] = -1
	}
	for i := range 10 {
		table['0'+i] = int8(i)
	}
	for i := range 6 {
		table['a'+i], table['A'+i] = int8(10+i), int8(10+i)
	}
	return table
}()
