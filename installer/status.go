package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/console"
	"teleport-update/internal/procfs"
)

// Status of find is asked for no longer than this: status must answer.
const statusPatience = 3 * time.Second

// StatusSchema is the form of Report. Fields, states and types of conditions are added
// without another number; it changes where one goes, or means something else.
const StatusSchema = 1

// Report is the answer of status. The first nine fields after the number of its form
// are those of RFD 0169 (§Status); what is not known is null.
type Report struct {
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

	State            State      `json:"state"`
	Explanation      string     `json:"explanation"`
	Proxy            *string    `json:"proxy"`
	Group            *string    `json:"group"`
	Pinned           bool       `json:"pinned"`
	Unproven         bool       `json:"unproven"`
	LastSuccess      *time.Time `json:"last_success_at"` // of a change of the version
	LastTarget       *string    `json:"last_target"`
	LastResult       *string    `json:"last_result"`
	LastError        *string    `json:"last_error"`
	SkippedBackup    bool       `json:"last_skipped_backup"`
	FailedVersion    *string    `json:"failed_version"`
	FailedAttempts   *int       `json:"failed_attempts"`
	NextAttempt      *time.Time `json:"next_attempt"`
	HeldVersion      *string    `json:"held_version"`
	RefusedVersion   *string    `json:"refused_version"`
	RefusedReason    *string    `json:"refused_reason"`
	PackageLeft      *string    `json:"package_left"` // still to be removed, and why it could not be
	DesiredCheckedAt *time.Time `json:"desired_checked_at"`
	DesiredError     *string    `json:"desired_error"`
	JitterUntil      *time.Time `json:"jitter_until"` // a run waits until then before it changes the version
	OpenTransaction  *OpenState `json:"open_transaction"`

	Agent      AgentReport     `json:"agent"`
	Conditions []Condition     `json:"conditions"` // the gravest first
	Failing    *FailingReport  `json:"failing"`
	Unstable   *state.Unstable `json:"unstable"`

	groupUnknown    bool // to find
	policy          aboutPolicy
	oldVersionsLeft string
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

	explanation string // what happens, or is to be done
}

// State is the host's state in one word.
type State string

const (
	StateDisabled       State = "disabled"
	StatePinned         State = "pinned"
	StateHeld           State = "held"
	StateIdle           State = "idle"
	StateWaiting        State = "waiting"
	StateUpdating       State = "updating"
	StateBackingOff     State = "backing_off"
	StateFailing        State = "failing"
	StateUnstable       State = "unstable"
	StateNeedsAttention State = "needs_attention"
)

// StatusOptions are the flags of status.
type StatusOptions struct {
	Offline bool // do not ask find
}

// Status reports on the host. It takes no lock, writes nothing and works
// without a network: the desired version is then the last one heard, with the
// time when.
func (i *Installer) Status(ctx context.Context, opts StatusOptions) (Report, error) {
	c, err := i.Paths.LoadConfig()
	if errors.Is(err, os.ErrPermission) && i.Paths.RunDir != "" {
		err = fmt.Errorf("%w; everybody may read %s", err, i.Paths.Summary())
	}
	if err != nil {
		return Report{}, err
	}
	r := Report{
		SchemaVersion: StatusSchema,

		VersionInstalled: known(c.Spec.ActiveVersion),
		EditionInstalled: known(string(c.Status.ActiveEdition)),
		VersionPrevious:  known(c.Status.PreviousVersion),
		EditionPrevious:  known(string(c.Status.PreviousEdition)),
		UpdatesEnabled:   c.Spec.Enabled,
		Pinned:           c.Spec.Pinned,
		Unproven:         c.Status.Unproven,
		PackageLeft:      known(describeLeft(c.Status.PackagesLeft)),
	}
	if u := c.Status.LastUpdate; u != nil {
		r.UpdateTimeLast, r.LastResult = &u.Time, known(string(u.Result))
		r.LastTarget, r.LastError, r.SkippedBackup = known(u.Target), known(u.Error), u.SkippedBackup
	}
	if f := c.Status.Failed; f != nil {
		r.FailedVersion, r.FailedAttempts, r.NextAttempt = &f.Version, &f.Attempts, &f.NextAttempt
	}
	if h := c.Status.Held; h != nil {
		r.HeldVersion = &h.Version
	}
	if x := c.Status.Refused; x != nil {
		r.RefusedVersion, r.RefusedReason = &x.Version, &x.Reason
	}
	r.LastSuccess = i.History().LastSuccess()
	if r.LastSuccess == nil && c.Status.LastUpdate != nil && c.Status.LastUpdate.Result == state.Succeeded {
		r.LastSuccess = r.UpdateTimeLast // of a transaction that no history has
	}
	i.reportDesired(ctx, c, opts, &r)
	broken := i.reportTransaction(&r)
	if broken == nil && r.OpenTransaction == nil && c.Spec.ActiveVersion == "" {
		if err := i.CheckNeverEnabled(); err != nil {
			settled := "nothing updates it before `teleport-update enable`"
			if c.Spec.Enabled && !c.Spec.Pinned {
				settled = "the next update to the version that the cluster wants repairs it: `teleport-update update`, or the timer's next run"
			}
			broken = fmt.Errorf("%s names no active version, but the updater may have installed the agent: %w; %s", i.Paths.Config(), err, settled)
		}
	}
	if broken == nil && r.OpenTransaction == nil {
		broken = i.CheckEnded(ctx, c)
	}
	agent, ticks := i.viewAgent(ctx), i.ticks()
	r.Agent = agent.AgentReport
	if w := ticks.Waiting; w != nil && w.Live(i.Processes) {
		r.JitterUntil = &w.Until
	}
	if f := ticks.Failing; f != nil {
		r.Failing = &FailingReport{Count: f.Count, First: f.First, Last: f.Last, NextAttempt: known(f.NextAttempt), Error: f.Error}
	}
	if r.OpenTransaction == nil {
		r.oldVersionsLeft = i.oldVersionsLeft(c)
	}
	if u := ticks.Unstable; u != nil && u.Release == c.Active() {
		r.Unstable = u
	}
	r.policy = i.aboutPolicy(c)
	r.Conditions, r.State, r.Explanation = sumUp(conditions(c, r, agent, ticks, broken, i.Now()))
	return r, nil
}

func (i *Installer) reportDesired(ctx context.Context, c state.Config, opts StatusOptions, r *Report) {
	spec := c.Spec
	if err := i.ResolveProxy(&spec); err != nil {
		return // never enabled, and nothing to ask
	}
	r.Proxy, r.Group = known(spec.Proxy), known(spec.Group)
	answer, err := find.Answer{}, errors.New("the cluster was not asked")
	if !opts.Offline {
		ctx, cancel := context.WithTimeout(ctx, statusPatience)
		defer cancel()
		if answer, err = i.askQuietly(ctx, spec); err != nil {
			r.DesiredError = known(err.Error())
		}
	}
	a := i.lastAnswer(spec, answer)
	if err != nil {
		a = i.recall(spec)
	}
	if a == nil {
		return
	}
	r.UpdateTimeJitter, r.DesiredCheckedAt, r.groupUnknown = &a.Jitter, &a.Time, a.GroupUnknown
	if a.Version != "" { // else find names no version
		r.VersionDesired, r.EditionDesired = known(a.Version), known(string(a.Edition))
	}
}

func (i *Installer) reportTransaction(r *Report) (broken error) {
	j, err := transaction.Describe(i.Paths.Journal())
	if bad, ok := errors.AsType[*state.JournalError](err); ok && bad.Newer == nil { // else it says what to do
		return fmt.Errorf("%w; the next run, or `teleport-update update`, goes on where it can, and says what to do where it cannot", err)
	}
	if err != nil || j == nil {
		return err
	}
	o := OpenState{To: j.To.String(), Phase: string(j.Phase), Since: j.Started, Running: procfs.Host().Locked(i.Paths.UpdateLock()), Error: known(j.Verdict.Reason)}
	o.explanation = j.CutOff
	if o.Running {
		o.explanation = j.Working
	}
	if j.From != nil {
		o.From = known(j.From.String())
	}
	r.OpenTransaction = &o
	return nil
}

// known is nil for the zero value.
func known[V comparable](v V) *V {
	var zero V
	if v == zero {
		return nil
	}
	return &v
}

// Text writes the report for a person.
func (r Report) Text(w io.Writer) {
	line := lines(w, "%-15s %v\n")
	line("State", fmt.Sprintf("%s: %s", r.State, r.Explanation))
	line("Agent", r.Agent.Text())
	none := "none"
	if slices.ContainsFunc(r.Conditions, func(c Condition) bool { return c.Type == RecordsBroken }) {
		none = "unknown"
	}
	line("Installed", versionText(r.VersionInstalled, r.EditionInstalled, none))
	line("Desired", versionText(r.VersionDesired, r.EditionDesired, "unknown"))
	line("  asked at", timeText(r.DesiredCheckedAt))
	line("  now", textOr(r.DesiredError, ""))
	line("Previous", versionText(r.VersionPrevious, r.EditionPrevious, none))
	line("Proxy", textOr(r.Proxy, "none"))
	line("Group", textOr(r.Group, "none"))
	line("Enabled", map[bool]string{true: "yes", false: "no"}[r.UpdatesEnabled])
	if r.Unproven {
		line("Unproven", "the agent was not running when the host switched to this version")
	}
	for _, c := range r.Conditions {
		if slices.Contains([]ConditionType{GroupUnknown, TimerOff, RestartPending, VersionsLeft, Unsigned}, c.Type) {
			line("Note", c.Message)
		}
	}
	if r.LastResult != nil {
		line("Last update", fmt.Sprintf("%s, to %s, at %s", *r.LastResult, textOr(r.LastTarget, "?"), r.UpdateTimeLast.Format(time.RFC3339)))
	}
	line("  success", timeText(r.LastSuccess))
	line("  error", textOr(r.LastError, ""))
	if r.FailedVersion != nil {
		line("Failed", fmt.Sprintf("%s, %d %s; next attempt at %s", *r.FailedVersion, *r.FailedAttempts, plural(*r.FailedAttempts, "time", "times"), r.NextAttempt.Format(time.RFC3339)))
	}
	line("Package left", textOr(r.PackageLeft, ""))
	if o := r.OpenTransaction; o != nil {
		what := textOr(o.From, "nothing") + " to " + o.To
		if o.To == "" {
			what = "uninstall"
		}
		line("Transaction", fmt.Sprintf("%s, phase %s, since %s", what, o.Phase, o.Since.Format(time.RFC3339)))
	}
}

// lines writes a name and a value on each line, the values one below the other. A value
// that is empty is left out.
func lines(w io.Writer, format string) func(name, value string) {
	return func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, format, name+":", console.Line(value))
		}
	}
}

func timeText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

func versionText(v, e *string, none string) string {
	if v == nil {
		return none
	}
	return *v + " (" + textOr(e, "edition unknown") + ")"
}

func textOr(s *string, other string) string {
	if s == nil {
		return other
	}
	return *s
}

func describeLeft(left []state.PackageLeft) string {
	var all []string
	for _, l := range left {
		all = append(all, l.Package.String()+": "+l.Error)
	}
	return strings.Join(all, "; ")
}
