// Package view presents the host: in the forms of status, in the summary that everybody may read, as metrics, and in the sentences that a
// command ends with. It looks at nothing but a survey and the decisions about it.
package view

import (
	"bytes"
	"encoding/json"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
)

// StatusSchema is the version of Status's form. Added fields, states and types of conditions do not change it; a removed one, or one with
// another meaning, does.
const StatusSchema = 1

// Status is the answer of status. After the number of its form come the nine fields of RFD 0169 (§Status); an unknown value is null.
type Status struct {
	SchemaVersion int `json:"schema_version"`

	VersionInstalled *string    `json:"agent_version_installed"`
	VersionDesired   *string    `json:"agent_version_desired"`
	VersionPrevious  *string    `json:"agent_version_previous"`
	EditionInstalled *string    `json:"agent_edition_installed"`
	EditionDesired   *string    `json:"agent_edition_desired"`
	EditionPrevious  *string    `json:"agent_edition_previous"`
	UpdateTimeLast   *time.Time `json:"agent_update_time_last"`
	UpdateTimeJitter *int       `json:"agent_update_time_jitter"` // seconds
	UpdatesEnabled   bool       `json:"agent_updates_enabled"`

	State            decision.State `json:"state"`
	Explanation      string         `json:"explanation"`
	Proxy            *string        `json:"proxy"`
	Group            *string        `json:"group"`
	Pinned           bool           `json:"pinned"`
	Unproven         bool           `json:"unproven"`
	LastSuccess      *time.Time     `json:"last_success_at"` // of a change of the version
	LastTarget       *string        `json:"last_target"`
	LastResult       *string        `json:"last_result"`
	LastError        *string        `json:"last_error"`
	SkippedBackup    bool           `json:"last_skipped_backup"`
	FailedVersion    *string        `json:"failed_version"`
	FailedAttempts   *int           `json:"failed_attempts"`
	FailedError      *string        `json:"failed_error"`
	NextAttempt      *time.Time     `json:"next_attempt"`
	HeldVersion      *string        `json:"held_version"`
	RefusedVersion   *string        `json:"refused_version"`
	RefusedReason    *string        `json:"refused_reason"`
	PackageLeft      *string        `json:"package_left"` // still to be removed, and why it could not be
	DesiredCheckedAt *time.Time     `json:"desired_checked_at"`
	DesiredError     *string        `json:"desired_error"`
	JitterUntil      *time.Time     `json:"jitter_until"` // a run waits until then before it changes the version
	OpenTransaction  *OpenState     `json:"open_transaction"`

	Agent      AgentReport          `json:"agent"`
	Updater    UpdaterReport        `json:"updater"`
	Releases   ReleasesReport       `json:"releases"`
	Conditions []decision.Condition `json:"conditions"` // the gravest first
	Failing    *FailingReport       `json:"failing"`
	Unstable   *state.Unstable      `json:"unstable"`

	unread   bool            // updates.yaml cannot be read
	notKnown []decision.Type // checks that might find something, but did not look
	now      time.Time       // of the report, to which other times are relative
}

// MarshalJSON writes null for fields that only updates.yaml knows, if it cannot be read.
func (r Status) MarshalJSON() ([]byte, error) {
	type status Status // without this method
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // the caller's encoder decides about that
	var form any = status(r)
	if r.unread {
		form = struct {
			status
			UpdatesEnabled *bool `json:"agent_updates_enabled"`
			Pinned         *bool `json:"pinned"`
			Unproven       *bool `json:"unproven"`
			SkippedBackup  *bool `json:"last_skipped_backup"`
		}{status: status(r)}
	}
	err := enc.Encode(form)
	return text.Bytes(), err
}

// FailingReport is about runs of the timer that fail.
type FailingReport struct {
	Count       int        `json:"count"` // in a row
	First       time.Time  `json:"first"`
	Last        time.Time  `json:"last"`
	NextAttempt *time.Time `json:"next_attempt"` // null: at the next run
	Error       string     `json:"error"`
}

// OpenState describes a transaction that is not closed.
type OpenState struct {
	From    *string   `json:"from"`
	To      string    `json:"to"`
	Phase   string    `json:"phase"`
	Since   time.Time `json:"since"`
	Running bool      `json:"running"` // an updater is at work on it now
	Error   *string   `json:"error"`
}

// UpdaterReport describes the updater itself and the runs of its timer. Times are null if systemd does not know them, or does not run.
type UpdaterReport struct {
	Version *string    `json:"version"`     // of the program that reports
	LastRun *time.Time `json:"last_run_at"` // when the last run of the timer ended
	NextRun *time.Time `json:"next_run_at"`
}

// ReleasesReport names the sources of releases.
type ReleasesReport struct {
	Templates []string `json:"templates"` // without secrets; the first one is the primary, empty for the usual place
	CAFile    *string  `json:"ca_file"`
}

// Desired is the version that find wants on this host, as far as that is known.
type Desired struct {
	Version, Edition string
	CheckedAt        *time.Time
	Jitter           *int // seconds
	Error            string
	Proxy, Group     string
}

// Reported holds the material of a report.
type Reported struct {
	Survey  *survey.Survey
	Verdict decision.Verdict
	Desired Desired
	Updater string // its version
	Policy  decision.Policy
	// Redact takes secrets out of a URL.
	Redact func(string) string
	Agent  AgentReport
	Own    survey.Own
	// JitterUntil is the time until which a run waits; nil: no run waits.
	JitterUntil *time.Time
}

// Of returns the report on the host.
func Of(m Reported) Status {
	s := m.Survey
	c, unread := s.Config() // the error is a condition
	ticks, d := s.Ticks(), m.Desired
	r := Status{
		SchemaVersion: StatusSchema, now: s.Now(), unread: unread != nil, notKnown: m.Verdict.NotKnown,

		VersionInstalled: Known(c.Spec.ActiveVersion), EditionInstalled: Known(string(c.Status.ActiveEdition)),
		VersionPrevious: Known(c.Status.PreviousVersion), EditionPrevious: Known(string(c.Status.PreviousEdition)),
		VersionDesired: Known(d.Version), EditionDesired: Known(d.Edition),
		DesiredCheckedAt: d.CheckedAt, DesiredError: Known(d.Error), UpdateTimeJitter: d.Jitter, Proxy: Known(d.Proxy), Group: Known(d.Group),
		UpdatesEnabled: c.Spec.Enabled, Pinned: c.Spec.Pinned, Unproven: c.Status.Unproven,
		PackageLeft: Known(decision.DescribeLeft(c.Status.PackagesLeft)),
		JitterUntil: m.JitterUntil, Agent: m.Agent,
		Updater: UpdaterReport{Version: Known(m.Updater), LastRun: Known(lastRun(m.Own, ticks, s.Now())),
			NextRun: Known(m.Own.Timer.NextTrigger)},
		Releases: ReleasesReport{Templates: []string{}, CAFile: Known(c.Spec.CAFile)},
		State:    m.Verdict.State, Explanation: m.Verdict.Explanation, Conditions: m.Verdict.Conditions,
	}
	for _, template := range c.Spec.URLTemplates {
		r.Releases.Templates = append(r.Releases.Templates, m.Redact(template))
	}
	r.outcome(c.Status, m.Policy)
	h, _ := s.History()
	if r.LastSuccess = h.LastSuccess(); r.LastSuccess == nil && c.Status.LastUpdate != nil && c.Status.LastUpdate.Result == state.Succeeded {
		r.LastSuccess = r.UpdateTimeLast // of a transaction that is missing in the history
	}
	if t, err := s.Transaction(); err == nil && t != nil {
		r.OpenTransaction = openState(t)
	}
	if f := ticks.Failing; f != nil && m.Verdict.Of(decision.RunsFail) {
		r.Failing = &FailingReport{Count: f.Count, First: f.First, Last: f.Last, NextAttempt: Known(f.NextAttempt), Error: f.Error}
	}
	if u := ticks.Unstable; u != nil && u.Release == c.Active() {
		r.Unstable = u
	}
	return r
}

// lastRun returns when the last run of the timer ended: systemd may know of a run that recorded nothing. systemd keeps a time by the clock
// of then: if somebody set the clock back, the time is in the future.
func lastRun(own survey.Own, ticks state.Ticks, now time.Time) time.Time {
	if own.Run.ExitedAt.After(ticks.Ended) && !own.Run.ExitedAt.After(now) {
		return own.Run.ExitedAt.Truncate(time.Second)
	}
	return ticks.Ended
}

// outcome fills in the results of earlier changes.
func (r *Status) outcome(s state.Status, p decision.Policy) {
	if u := s.LastUpdate; u != nil {
		r.UpdateTimeLast, r.LastResult = &u.Time, Known(string(u.Result))
		r.LastTarget, r.LastError, r.SkippedBackup = Known(u.Target), Known(u.Error), u.SkippedBackup
	}
	if f := s.Failed; f != nil {
		r.FailedVersion, r.FailedAttempts, r.NextAttempt, r.FailedError = &f.Version, &f.Attempts, &f.NextAttempt, Known(f.Error)
	}
	if h := s.Held; h != nil {
		r.HeldVersion = &h.Version
	}
	if why := p.Refusal(s.Refused); why != "" {
		r.RefusedVersion, r.RefusedReason = &s.Refused.Version, &why
	}
}

func openState(t *survey.Transaction) *OpenState {
	o := OpenState{To: t.To.String(), Phase: string(t.Phase), Since: t.Started, Running: t.Running, Error: Known(t.Verdict.Reason)}
	if t.From != nil {
		o.From = Known(t.From.String())
	}
	return &o
}

// Known returns nil for the zero value.
func Known[V comparable](v V) *V {
	var zero V
	if v == zero {
		return nil
	}
	return &v
}
