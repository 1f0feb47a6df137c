package installer

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/trust"
)

// Summary is what everybody on the host may read of status: no address, no path and no
// text of an error is in it.
type Summary struct {
	SchemaVersion    int              `json:"schema_version"`
	WrittenAt        time.Time        `json:"written_at"`
	State            State            `json:"state"`
	VersionInstalled *string          `json:"agent_version_installed"`
	VersionDesired   *string          `json:"agent_version_desired"`
	VersionRunning   *string          `json:"agent_version_running"`
	AgentState       *string          `json:"agent_active_state"`
	UpdatesEnabled   bool             `json:"agent_updates_enabled"`
	LastAttempt      *time.Time       `json:"last_attempt_at"`
	LastResult       *string          `json:"last_result"`
	LastSuccess      *time.Time       `json:"last_success_at"`
	JitterUntil      *time.Time       `json:"jitter_until"`
	Conditions       []ShortCondition `json:"conditions"`
}

// ShortCondition is a Condition without its text.
type ShortCondition struct {
	Type  ConditionType `json:"type"`
	Since *time.Time    `json:"since"`
}

func (r Report) summary(now time.Time) Summary {
	s := Summary{
		SchemaVersion: StatusSchema, WrittenAt: now, State: r.State, VersionInstalled: r.VersionInstalled, VersionDesired: r.VersionDesired,
		VersionRunning: r.Agent.Version, AgentState: r.Agent.ActiveState, UpdatesEnabled: r.UpdatesEnabled,
		LastAttempt: r.UpdateTimeLast, LastResult: r.LastResult, LastSuccess: r.LastSuccess, JitterUntil: r.JitterUntil, Conditions: []ShortCondition{},
	}
	for _, c := range r.Conditions {
		s.Conditions = append(s.Conditions, ShortCondition{c.Type, c.Since})
	}
	return s
}

// Settle is for the end of a command that may have changed something: the history has
// the transaction that was made, everybody may read how the host is, and hooks are run.
func (i *Installer) Settle(ctx context.Context, command string) {
	var added *state.Ended
	if i.storeIsOurs() {
		added = i.noteEnded(command)
	}
	i.publish(ctx)
	if added != nil {
		i.runHooks(ctx, *added)
	}
}

// storeIsOurs reports whether nobody but root can have root write elsewhere through the
// folder of the versions, or have written what is in it. Commands refuse to work there;
// what comes after them must not, either.
func (i *Installer) storeIsOurs() bool { return trust.Path(i.Paths.Versions()) == nil }

// publish writes down how the host is, for those who do not ask this program.
func (i *Installer) publish(ctx context.Context) {
	if i.Paths.RunDir == "" && !host.Exists(i.Paths.Config()) {
		return
	}
	c, _ := i.Paths.LoadConfig()
	dir := c.Spec.TextfileDir
	r, err := i.Status(ctx, StatusOptions{Offline: true})
	if err != nil {
		i.Log.Debug("the summary of the host could not be recorded", "error", err)
		return
	}
	ours := i.storeIsOurs()
	if ours {
		if err := i.settleReport(r); err != nil {
			i.Log.Debug("what the agent reports to its cluster could not be written", "error", err)
		}
	}
	if i.Paths.RunDir != "" {
		data, err := r.summary(i.Timestamp()).text()
		if err == nil {
			err = state.WriteForAll(i.Paths.Summary(), data)
		}
		if err != nil {
			i.Log.Debug("the summary of status could not be written", "error", err)
		}
	}
	if dir == "" || !ours {
		return
	}
	var text bytes.Buffer
	if err = r.OpenMetrics(&text); err == nil {
		err = state.WriteTextfile(dir, text.Bytes())
	}
	if err != nil {
		i.Log.Warn("the metrics for node_exporter could not be written", "folder", dir, "error", err)
	}
}

// text is the file.
func (s Summary) text() ([]byte, error) {
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}
