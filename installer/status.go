package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
)

// Status of find is asked for no longer than this: status must answer.
const statusPatience = 3 * time.Second

// Report is the answer of status. The first nine fields are those of RFD 0169
// (§Status); what is not known is null.
type Report struct {
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
	OpenTransaction  *OpenState `json:"open_transaction"`
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
	StateUpdating       State = "updating"
	StateBackingOff     State = "backing_off"
	StateNeedsAttention State = "needs_attention"
)

// Status reports on the host. It takes no lock, writes nothing and works
// without a network: the desired version is then the last one heard, with the
// time when.
func (i *Installer) Status(ctx context.Context) (Report, error) {
	c, err := i.Paths.LoadConfig()
	if errors.Is(err, os.ErrPermission) {
		return Report{}, fmt.Errorf("%w: status reads root's files, run it as root", err)
	}
	if err != nil {
		return Report{}, err
	}
	r := Report{
		VersionInstalled: known(c.Spec.ActiveVersion),
		EditionInstalled: known(string(c.Status.ActiveEdition)),
		VersionPrevious:  known(c.Status.PreviousVersion),
		EditionPrevious:  known(string(c.Status.PreviousEdition)),
		UpdatesEnabled:   c.Spec.Enabled,
		Pinned:           c.Spec.Pinned,
		Unproven:         c.Status.Unproven,
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
	if len(c.Status.PackagesLeft) > 0 {
		r.PackageLeft = known(describeLeft(c.Status.PackagesLeft))
	}
	i.reportDesired(ctx, c, &r)
	broken := i.reportTransaction(&r)
	if broken == nil && r.OpenTransaction == nil && c.Spec.ActiveVersion == "" {
		if err := i.CheckNeverEnabled(); err != nil {
			settled := "nothing updates it before `teleport-update enable`"
			if c.Spec.Enabled && !c.Spec.Pinned {
				settled = "the next transaction to the version that find wants settles it: `teleport-update update`, or the timer's next run"
			}
			broken = fmt.Errorf("%s names no active version, but the agent may be ours all the same: %w; %s", i.Paths.Config(), err, settled)
		}
	}
	r.State, r.Explanation = stateWord(c, r, broken, i.Now())
	return r, nil
}

func (i *Installer) reportDesired(ctx context.Context, c state.Config, r *Report) {
	spec := c.Spec
	if err := i.ResolveProxy(&spec); err != nil {
		return // never enabled, and nothing to ask
	}
	r.Proxy, r.Group = known(spec.Proxy), known(spec.Group)
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	answer, err := i.askQuietly(ctx, spec)
	if err == nil {
		now, jitter := i.Timestamp(), int(answer.Jitter/time.Second)
		r.wants(version.Release{Version: answer.Version, Edition: answer.Edition})
		r.UpdateTimeJitter, r.DesiredCheckedAt = &jitter, &now
		return
	}
	r.DesiredError = known(err.Error())
	if a := i.recall(spec); a != nil {
		r.wants(a.Release)
		r.UpdateTimeJitter, r.DesiredCheckedAt = &a.Jitter, &a.Time
	}
}

// wants says what find names; nothing where it names no version.
func (r *Report) wants(w version.Release) {
	if w.Version != "" {
		r.VersionDesired, r.EditionDesired = known(w.Version), known(string(w.Edition))
	}
}

func (i *Installer) reportTransaction(r *Report) (broken error) {
	j, err := transaction.Describe(i.Paths.Journal())
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

// stateWord sums the report up, the gravest first.
func stateWord(c state.Config, r Report, broken error, now time.Time) (State, string) {
	o := r.OpenTransaction
	desired := version.Release{}
	if r.VersionDesired != nil && r.EditionDesired != nil {
		desired = version.Release{Version: *r.VersionDesired, Edition: version.Edition(*r.EditionDesired)}
	}
	switch h := c.Status.Held; {
	case broken != nil:
		return StateNeedsAttention, broken.Error()
	case o != nil && o.Running:
		return StateUpdating, o.explanation
	case o != nil:
		return StateNeedsAttention, o.explanation
	case !c.Spec.Enabled:
		return StateDisabled, "updates are disabled; `teleport-update enable` turns them on"
	case c.Spec.Pinned:
		return StatePinned, fmt.Sprintf("pinned to %s; `teleport-update unpin` lets it follow find again", c.Spec.ActiveVersion)
	case h != nil && (desired.Version == "" || h.Version == desired.Version && h.Edition == desired.Edition):
		return StateHeld, fmt.Sprintf("version %s is held back since a rollback by hand; `teleport-update update --now` releases it", h.Version)
	case desired.Version != "" && c.Status.FailureOf(desired).BackingOff(desired, now):
		f := c.Status.FailureOf(desired)
		return StateBackingOff, fmt.Sprintf("version %s failed %d time(s); next attempt at %s, `teleport-update update --now` tries at once",
			f.Version, f.Attempts, f.NextAttempt.Format(time.RFC3339))
	case c.Status.Refused.Is(desired):
		return StateNeedsAttention, c.Status.Refused.Reason
	case desired.Version != "" && desired != c.Active():
		return StateIdle, fmt.Sprintf("find wants %s; the next run follows when find says so", desired.Short())
	case desired.Version == "" && r.DesiredCheckedAt != nil && r.DesiredError == nil:
		return StateIdle, namesNoVersion
	case desired.Version == "":
		return StateIdle, "what find wants is not known: " + textOr(r.DesiredError, "it was never asked")
	}
	return StateIdle, "the version that find wants is active"
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Text writes the report for a person.
func (r Report) Text(w io.Writer) {
	line := func(name string, value any) {
		fmt.Fprintf(w, "%-15s %v\n", name+":", value)
	}
	line("State", fmt.Sprintf("%s: %s", r.State, r.Explanation))
	line("Installed", versionText(r.VersionInstalled, r.EditionInstalled))
	line("Desired", versionText(r.VersionDesired, r.EditionDesired))
	if r.DesiredCheckedAt != nil {
		line("  asked at", r.DesiredCheckedAt.Format(time.RFC3339))
	}
	if r.DesiredError != nil {
		line("  now", *r.DesiredError)
	}
	line("Previous", versionText(r.VersionPrevious, r.EditionPrevious))
	line("Proxy", textOr(r.Proxy, "none"))
	line("Group", textOr(r.Group, "none"))
	line("Enabled", yesNo(r.UpdatesEnabled))
	if r.Unproven {
		line("Unproven", "the agent was not running when this version was switched to")
	}
	if r.LastResult != nil {
		line("Last update", fmt.Sprintf("%s, to %s, at %s", *r.LastResult, textOr(r.LastTarget, "?"), r.UpdateTimeLast.Format(time.RFC3339)))
	}
	if r.LastError != nil {
		line("  error", *r.LastError)
	}
	if r.FailedVersion != nil {
		line("Failed", fmt.Sprintf("%s, %d time(s); next attempt at %s", *r.FailedVersion, *r.FailedAttempts, r.NextAttempt.Format(time.RFC3339)))
	}
	if r.PackageLeft != nil {
		line("Package left", *r.PackageLeft)
	}
	if o := r.OpenTransaction; o != nil {
		what := textOr(o.From, "nothing") + " to " + o.To
		if o.To == "" {
			what = "uninstall"
		}
		line("Transaction", fmt.Sprintf("%s, phase %s, since %s", what, o.Phase, o.Since.Format(time.RFC3339)))
	}
}

func versionText(v, e *string) string {
	if v == nil {
		return "unknown"
	}
	return *v + " (" + textOr(e, "edition unknown") + ")"
}

func textOr(s *string, other string) string {
	if s == nil {
		return other
	}
	return *s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func describeLeft(left []state.PackageLeft) string {
	var all []string
	for _, l := range left {
		all = append(all, l.Package.String()+": "+l.Error)
	}
	return strings.Join(all, "; ")
}
