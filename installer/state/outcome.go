package state

import (
	"slices"
	"time"

	"teleport-update/find/want"
	"teleport-update/internal/version"
)

// Status is the record of what happened so far.
type Status struct {
	ActiveEdition version.Edition `yaml:"active_edition,omitempty"`
	// ActiveSchema is the schema of the agent's database when the active version was proven; empty if
	// it was not read.
	ActiveSchema string `yaml:"active_schema,omitempty"`
	// CommittedVersion is the version that a transaction made the active one, or whose agent was seen to run as that.
	CommittedVersion string          `yaml:"committed_version,omitempty"`
	PreviousVersion  string          `yaml:"previous_version,omitempty"`
	PreviousEdition  version.Edition `yaml:"previous_edition,omitempty"`
	// Unproven is set when the active version was switched to while the agent
	// was not running, so that nothing could be watched.
	Unproven   bool        `yaml:"unproven,omitempty"`
	LastUpdate *LastUpdate `yaml:"last_update,omitempty"`
	Failed     *Failed     `yaml:"failed,omitempty"`
	// FailedBefore are others that failed before that one, the last first: proxies
	// behind one address may want different versions in turn.
	FailedBefore []Failed     `yaml:"failed_before,omitempty"`
	Interrupted  *Interrupted `yaml:"interrupted,omitempty"`
	// RetryFailed is the last retry_failed of find's answers that this host has taken
	// up: a back-off is lifted once for each value.
	RetryFailed *time.Time `yaml:"retry_failed,omitempty"`
	Held        *Held      `yaml:"held,omitempty"`
	Refused     *Refused   `yaml:"refused,omitempty"`
	// ActiveSince is when the active version became active; zero before its first change.
	ActiveSince time.Time `yaml:"active_since,omitempty"`
	// Returned is the version that this host came to and left for the one before within
	// an hour: servers behind one name may disagree.
	Returned *Returned `yaml:"returned,omitempty"`
	// Earlier are the versions that this host left of late.
	Earlier []Earlier `yaml:"earlier,omitempty"`
	// Left is the version that the timer's run left because it crashed again and again:
	// that is done once for a version.
	Left *Left `yaml:"left,omitempty"`
	// RollbackRefused is the version before, while the policy refuses that the timer goes back to it.
	RollbackRefused *Refused `yaml:"rollback_refused,omitempty"`
	// PolicySeen says which parts of a policy were there when one was last read: if one is missing
	// later, that is an error, and not the absence of a policy.
	PolicySeen *PolicySeen `yaml:"policy_seen,omitempty"`
	// FirstEnable is the first enable, while it has failed and no version is active.
	FirstEnable *FirstEnable `yaml:"first_enable,omitempty"`
	// PackagesLeft could not be removed when their agent was taken over.
	PackagesLeft []PackageLeft `yaml:"packages_left,omitempty"`
	Unknown      unknown       `yaml:",inline"`
}

// FirstEnable is a first enable that failed: its options are nowhere else.
type FirstEnable struct {
	Time    time.Time `yaml:"time"`
	Command string    `yaml:"command"` // to be typed again, without secrets
	Error   string    `yaml:"error"`
	Unknown unknown   `yaml:",inline"`
}

// Result is how the last transaction ended.
type Result string

const (
	Succeeded   Result = "succeeded"
	RolledBack  Result = "rolled_back"
	FailedEarly Result = "failed" // nothing live had been touched
	// Repaired is for the history alone: links and unit are the version's again.
	Repaired  Result = "repaired"
	Interrupt Result = "interrupted"
)

// LastUpdate is the outcome of the last attempt to change the version.
type LastUpdate struct {
	Time          time.Time       `yaml:"time"`
	Target        string          `yaml:"target"`
	TargetEdition version.Edition `yaml:"target_edition,omitempty"`
	Result        Result          `yaml:"result"`
	Error         string          `yaml:"error,omitempty"`
	// ErrorCode is the cause as agents report it to clusters, a sum of bits: 1 is no space
	// left, 2 a systemd that did not read its files again.
	ErrorCode     int  `yaml:"error_code,omitempty"`
	SkippedBackup bool `yaml:"skipped_backup,omitempty"`
	// Took are the durations of its parts, as far as they are known.
	Took map[string]Duration `yaml:"took,omitempty"`
	// Transaction is the ID of the transaction that was undone.
	Transaction string  `yaml:"transaction,omitempty"`
	Unknown     unknown `yaml:",inline"`
}

// Failed remembers the version that was not healthy, so that the timer does not
// try it again at every tick.
type Failed struct {
	Version     string          `yaml:"version"`
	Edition     version.Edition `yaml:"edition,omitempty"`
	SHA256      string          `yaml:"sha256,omitempty"`
	Attempts    int             `yaml:"attempts"`
	NextAttempt time.Time       `yaml:"next_attempt"`
	Error       string          `yaml:"error"`
	Unknown     unknown         `yaml:",inline"`
}

// Interrupted counts transactions to one version that were cut off from
// outside. They say little about the version until the third.
type Interrupted struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Count   int             `yaml:"count"`
	Unknown unknown         `yaml:",inline"`
}

// Held is what a rollback by hand holds back: the version that was left, and the one that find
// names in its next answer. Any later answer is a wish that the person has not seen.
type Held struct {
	Version string          `yaml:"version" json:"version"` // find's wish; until it is heard, the last that was known
	Edition version.Edition `yaml:"edition,omitempty" json:"edition,omitempty"`
	Since   time.Time       `yaml:"since" json:"since"`
	// Heard means that find has answered since.
	Heard       bool            `yaml:"heard,omitempty" json:"heard,omitempty"`
	LeftVersion string          `yaml:"left_version,omitempty" json:"left_version,omitempty"`
	LeftEdition version.Edition `yaml:"left_edition,omitempty" json:"left_edition,omitempty"`
	Unknown     unknown         `yaml:",inline" json:"-"`
}

// Holds reports whether a release that find names now is held back.
func (h *Held) Holds(r version.Release) bool { return h.Hold().Holds(r) }

// Hold returns the record in the form for the decision about a wish; nil for none.
func (h *Held) Hold() *want.Hold {
	if h == nil {
		return nil
	}
	return &want.Hold{Since: h.Since, Left: version.Release{Version: h.LeftVersion, Edition: h.LeftEdition},
		Wish: version.Release{Version: h.Version, Edition: h.Edition}, Heard: h.Heard}
}

// Hear takes in find's answer, the first since the rollback, and reports whether it is. The version
// that the host went back to is no wish to hold back.
func (h *Held) Hear(wish, active version.Release) bool {
	if h == nil || !h.Hold().Waits() || wish.Version == "" {
		return false
	}
	h.Heard = true
	if wish != active {
		h.Version, h.Edition = wish.Version, wish.Edition
	}
	return true
}

// PackageLeft is a package that is still to be removed.
type PackageLeft struct {
	Package `yaml:",inline"`
	Since   time.Time `yaml:"since"`
	Error   string    `yaml:"error"`
	// NextAttempt is when the timer tries again; at its next run if packages were only locked.
	NextAttempt time.Time `yaml:"next_attempt,omitempty"`
	Unknown     unknown   `yaml:",inline"`
}

// Left is a version that was left for the one before.
type Left struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Time    time.Time       `yaml:"time"`
	Unknown unknown         `yaml:",inline"`
}

// PolicySeen says which parts of the host owner's policy were there.
type PolicySeen struct {
	File    bool     `yaml:"file,omitempty"` // policy.yaml
	Keys    bool     `yaml:"keys,omitempty"` // by which signatures were looked at
	Rules   []string `yaml:"rules,omitempty"`
	Unknown unknown  `yaml:",inline"`
}

// SeePolicy adds the present parts of a policy to the earlier ones, and reports whether that is
// news.
func (s *Status) SeePolicy(file, keys bool, rules []string) (news bool) {
	seen := PolicySeen{}
	if s.PolicySeen != nil {
		seen = *s.PolicySeen
	}
	all := slices.Clone(seen.Rules)
	for _, rule := range rules {
		if !slices.Contains(all, rule) {
			all = append(all, rule)
		}
	}
	if (seen.File || !file) && (seen.Keys || !keys) && len(all) == len(seen.Rules) {
		return false
	}
	seen.File, seen.Keys, seen.Rules = seen.File || file, seen.Keys || keys, all
	s.PolicySeen = &seen
	return true
}

// Refused is a target that must not be installed here, and why. It is reported
// as an error once per target.
type Refused struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Reason  string          `yaml:"reason"`
	// Policy means that the policy of the host's owner refused it, whose rules may have changed since.
	Policy bool `yaml:"policy,omitempty"`
	// SHA256 is the digest of the tarball that the policy refused; empty if its version was enough.
	SHA256  string  `yaml:"sha256,omitempty"`
	Unknown unknown `yaml:",inline"`
}

// Release returns the release that was refused.
func (r *Refused) Release() version.Release {
	return version.Release{Version: r.Version, Edition: r.Edition}
}

// Is reports whether a release is the one that was refused.
func (r *Refused) Is(t version.Release) bool {
	return r != nil && r.Version == t.Version && (r.Edition == "" || r.Edition == t.Edition)
}

const (
	// attemptWithin is how long after an attempt is due it is expected.
	attemptWithin = 24 * time.Hour
	// interruptions of one version that count together as one failure.
	interruptionLimit = 3
	// maxFailedBefore is how many failed versions are remembered beside the last one.
	maxFailedBefore = 4
)

// RecordFailure counts one more failure of a release. Another version, edition or digest starts
// from one; an earlier digest of the same version is forgotten.
func (s *Status) RecordFailure(r Tree, now time.Time, reason string) {
	attempts := 1
	before := s.FailedBefore
	if s.Failed != nil {
		before = append([]Failed{*s.Failed}, before...)
	}
	s.FailedBefore = nil
	for _, f := range before {
		switch {
		case f.Version == r.Version && f.Edition == r.Edition && f.SHA256 == r.SHA256:
			attempts = f.Attempts + 1
		case f.Version != r.Version || f.Edition != r.Edition:
			s.FailedBefore = append(s.FailedBefore, f)
		}
	}
	s.FailedBefore = s.FailedBefore[:min(len(s.FailedBefore), maxFailedBefore)]
	s.Failed = &Failed{
		Version: r.Version, Edition: r.Edition, SHA256: r.SHA256,
		Attempts: attempts, NextAttempt: now.Add(want.RetryDelay(attempts)).UTC().Truncate(time.Second), Error: reason,
	}
	s.Interrupted = nil
}

// TakeUpRetry notes that somebody had hosts try a release again, and reports whether that is news:
// then the release is due if it has failed. A host on which it has not failed notes it, too, so
// that it does not lift a later failure.
func (s *Status) TakeUpRetry(at time.Time, r version.Release, now time.Time) (news bool) {
	if at.IsZero() || s.RetryFailed != nil && s.RetryFailed.Equal(at) {
		return false
	}
	s.RetryFailed = &at
	if f := s.FailureOf(r); f.BackingOff(r, now) {
		f.NextAttempt = now.UTC().Truncate(time.Second)
	}
	return true
}

// RecordInterruption counts a transaction that was cut off from outside, and
// reports whether it was the one too many: then it counts as a failure.
func (s *Status) RecordInterruption(r version.Release) (tooMany bool) {
	if s.Interrupted == nil || s.Interrupted.Version != r.Version || s.Interrupted.Edition != r.Edition {
		s.Interrupted = &Interrupted{Version: r.Version, Edition: r.Edition}
	}
	s.Interrupted.Count++
	return s.Interrupted.Count >= interruptionLimit
}

// FailureOf returns the record of a release that failed; nil for one that did not, or so long ago
// that others came since.
func (s *Status) FailureOf(r version.Release) *Failed {
	if s.Failed.is(r) {
		return s.Failed
	}
	for i := range s.FailedBefore {
		if s.FailedBefore[i].is(r) {
			return &s.FailedBefore[i]
		}
	}
	return nil
}

func (f *Failed) is(r version.Release) bool {
	return f != nil && f.Version == r.Version && (f.Edition == "" || f.Edition == r.Edition)
}

// ReplacedBy reports whether a tarball of the version that failed is another one than the tarball
// that failed; an empty digest is not known.
func (f *Failed) ReplacedBy(sha256 string) bool { return f.Failure().ReplacedBy(sha256) }

// Release returns the release that failed.
func (f *Failed) Release() version.Release {
	return version.Release{Version: f.Version, Edition: f.Edition}
}

// Kept reports whether the failed release stays on disk, so that its next attempt is no download:
// until then, and a day longer, for the attempt may have to wait for its window.
func (f *Failed) Kept(now time.Time) bool {
	return f != nil && f.SHA256 != "" && now.Sub(f.NextAttempt) < attemptWithin && f.NextAttempt.Sub(now) <= want.LastRetry
}

// BackingOff reports whether a release failed and is not due yet.
func (f *Failed) BackingOff(r version.Release, now time.Time) bool {
	return f.is(r) && f.Failure().BackingOff(now)
}

// Failure returns the record in the form for the decision about a wish; nil for none.
func (f *Failed) Failure() *want.Failure {
	if f == nil {
		return nil
	}
	return &want.Failure{SHA256: f.SHA256, Attempts: f.Attempts, NextAttempt: f.NextAttempt}
}

// Returned is a version that the host came to and left for the one before within an hour, as
// happens if servers behind one name want different versions in turn.
type Returned struct {
	Version string          `yaml:"version"`
	Edition version.Edition `yaml:"edition,omitempty"`
	Since   time.Time       `yaml:"since"` // when the host was back
	Unknown unknown         `yaml:",inline"`
}
