package installer

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// AgentReport is the agent itself, as systemd and the kernel know it. All of it is null
// where no systemd runs; where systemd does not answer, Error says so.
type AgentReport struct {
	ActiveState   *string    `json:"active_state"`
	SubState      *string    `json:"sub_state"`
	PID           *int       `json:"pid"`        // of the process that serves
	Version       *string    `json:"version"`    // that this process executes, whatever is linked
	Edition       *string    `json:"edition"`    // null where its tree is gone
	Executable    *string    `json:"executable"` // as the kernel names it
	Since         *time.Time `json:"since"`      // the unit is active, or in the state it is in
	Restarts      *int       `json:"restarts"`   // by systemd, since somebody started the unit
	EnabledAtBoot *bool      `json:"enabled_at_boot"`
	Error         *string    `json:"error"`
}

// agentView is the agent with what decides about it.
type agentView struct {
	AgentReport
	state   state.AgentState
	running version.Release // of the process, zero where it is none of the store
	pending Pending         // what its next start changes

	timerOff string // why no run of the timer starts, and what to do
}

// viewAgent looks at the agent.
func (i *Installer) viewAgent(ctx context.Context) agentView {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	agent, err := i.Agent(ctx)
	if err != nil {
		return unseen(err)
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil {
		return unseen(err)
	}
	v := i.viewOf(sight)
	if v.timerOff, err = agent.TimerOff(ctx, i.OwnUnits().Timer()); err != nil {
		return unseen(err)
	}
	return v
}

func unseen(err error) agentView {
	return agentView{AgentReport: AgentReport{Error: new(err.Error())}, state: state.AgentUnknown}
}

func (i *Installer) viewOf(s transaction.Sight) agentView {
	v := agentView{state: s.State, pending: i.pendingIn(s)}
	if s.State == state.AgentUnknown {
		return v
	}
	v.ActiveState, v.SubState, v.Restarts = known(s.ActiveState), known(s.SubState), new(int(s.NRestarts))
	v.EnabledAtBoot, v.Since = enabledAtBoot(s.UnitFileState), known(s.Since.Truncate(time.Second))
	process := cmp.Or(s.Serving, s.Main)
	if process.PID == 0 || s.State == state.AgentStopped {
		return v
	}
	v.PID, v.Executable = &process.PID, known(process.Exe)
	if r, ok := i.Store.ReleaseOf(process.Exe); ok {
		v.running, v.Version, v.Edition = r, known(r.Version), known(string(r.Edition))
	}
	return v
}

// enabledAtBoot is nil where the unit does not say.
func enabledAtBoot(unitFileState string) *bool {
	switch unitFileState {
	case "enabled", "disabled", "masked":
		return new(unitFileState == "enabled")
	}
	return nil
}

// conditions say what is wrong with the agent of an active version.
func (v agentView) conditions(active version.Release, unstable *state.Unstable, previous string) (all []Condition) {
	back := "`journalctl -u teleport` says why"
	if previous != "" {
		back = fmt.Sprintf("`teleport-update rollback` goes back to version %s, %s", previous, back)
	}
	crashes := unstable != nil && unstable.Release == active
	switch {
	case active.Version == "" || v.state == state.AgentUnknown:
		return nil
	case crashes:
		return []Condition{{AgentUnstable, &unstable.Since, fmt.Sprintf("the agent of version %s crashes again and again since %s, found by %d %s of the timer: %s",
			active.Short(), unstable.Since.Format(time.RFC3339), unstable.Count, plural(unstable.Count, "run", "runs"), back)}}
	case v.state == state.AgentFailing:
		return []Condition{{AgentDown, v.Since, fmt.Sprintf("the agent of version %s fails (%s, %s): %s", active.Short(), textOr(v.ActiveState, "?"), textOr(v.SubState, "?"), back)}}
	case v.state == state.AgentStopped && v.EnabledAtBoot != nil && *v.EnabledAtBoot:
		return []Condition{{AgentDown, v.Since, "the agent is enabled at boot and does not run: `systemctl start teleport` starts it"}}
	case v.state == state.AgentStopped:
		return []Condition{{AgentNotStarted, v.Since, "the agent does not run, and nothing starts it: write its configuration, then `systemctl enable --now teleport`"}}
	case v.Executable == nil:
		return nil // between two processes
	case v.running.Version == "" && strings.HasSuffix(*v.Executable, "(deleted)") && strings.Contains(*v.Executable, "/.staging-"):
		return nil // of a tree that was damaged, and was fetched again
	case v.running.Version == "":
		return []Condition{{AgentOtherVersion, v.Since, fmt.Sprintf("the agent runs %s, which is not a kept version, and the links lead to version %s: `systemctl restart teleport` starts the linked version", *v.Executable, active.Short())}}
	case !v.runs(active):
		return []Condition{{AgentOtherVersion, v.Since, fmt.Sprintf("the agent runs version %s, and the links lead to version %s: `systemctl restart teleport` starts the linked version", v.running.Short(), active.Short())}}
	}
	return nil
}

// runs reports whether the process is of a release, as far as its edition is known.
func (v agentView) runs(r version.Release) bool {
	return v.running.Version == r.Version && (v.running.Edition == r.Edition || v.running.Edition == "" || r.Edition == "")
}

// Text is the agent in one line, for a person.
func (r AgentReport) Text() string {
	switch {
	case r.Error != nil:
		return "unknown: " + *r.Error
	case r.ActiveState == nil:
		return "unknown: systemd is not running"
	}
	parts := []string{fmt.Sprintf("%s (%s)", *r.ActiveState, textOr(r.SubState, "?"))}
	if r.PID != nil {
		parts = append(parts, "runs version "+textOr(r.Version, "unknown, "+textOr(r.Executable, "?")), fmt.Sprintf("PID %d", *r.PID))
	}
	if r.Since != nil {
		parts = append(parts, "since "+r.Since.Format(time.RFC3339))
	}
	if r.Restarts != nil && *r.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("restarted %d %s by systemd", *r.Restarts, plural(*r.Restarts, "time", "times")))
	}
	if r.EnabledAtBoot != nil {
		parts = append(parts, map[bool]string{true: "enabled at boot", false: "not enabled at boot"}[*r.EnabledAtBoot])
	}
	return strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// restartsOfALoop is how many restarts between two runs of the timer make a loop: one
// or two are a network that came late.
const restartsOfALoop = 3

// crashed judges an agent by what the last run of the timer saw of it: whether it
// crashes again and again. Of one that did so already one more restart is enough: this
// run may have looked between two crashes.
func crashed(u systemd.Unit, s state.AgentState, before *state.AgentSeen, already bool) bool {
	fresh, loop := u.NRestarts, uint32(restartsOfALoop)
	if before != nil && before.Restarts <= u.NRestarts { // else somebody started it since
		fresh -= before.Restarts
		if already {
			loop = 1
		}
	}
	return s == state.AgentFailing || s == state.AgentRunning && fresh >= loop
}

// givenUp reports whether systemd started an agent again and again, and then no more: it
// came to its limit of starts. One that a person stopped is idle.
func givenUp(u systemd.Unit) bool {
	return u.ActiveState == "failed" && !u.Idle() && u.UnitFileState == "enabled" && u.Restart != "no" && u.NRestarts > 0
}

// startGivenUp gives such an agent one more start in each run of the timer: what it failed
// for, a link or a file, may be back, and nobody else starts it.
func (t *tick) startGivenUp(ctx context.Context) {
	c, err := t.Paths.LoadConfig()
	if err != nil || !t.Scheduled || !c.Spec.Enabled || c.Spec.ActiveVersion == "" || host.Exists(t.Paths.Journal()) {
		return
	}
	agent, err := t.Agent(ctx)
	if err != nil {
		return
	}
	defer agent.Close()
	if sight, err := agent.Look(ctx); err != nil || !givenUp(sight.Unit) {
		return
	}
	t.Log.Warn("systemd has given the agent up after so many failed starts; it is started once more", "version", c.Spec.ActiveVersion)
	if err := agent.Start(ctx); err != nil {
		t.Log.Error("the agent cannot be started: `journalctl -u teleport` says why", "error", err)
	}
}
