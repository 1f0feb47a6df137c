package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"teleport-update/installer/decision"
)

// OpenMetrics writes the report as metrics, in the text format of OpenMetrics 1.0. Unknown values have no sample.
func (r Status) OpenMetrics(w io.Writer) error {
	m := metrics{w: w}
	// Gauges alone: so node_exporter reads the same text as a file.
	m.family("teleport_update_state", "The state of the host, as status says it: 1 for one of them.")
	for _, s := range allStates() {
		m.sample("teleport_update_state", boolean(s == r.State), "state", string(s))
	}
	m.family("teleport_update_condition", "What status has in conditions: 1 for each that is so.")
	for _, t := range decision.Checks {
		if slices.Contains(r.notKnown, t.Type) {
			continue
		}
		is := slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == t.Type })
		m.sample("teleport_update_condition", boolean(is), "type", string(t.Type))
	}
	m.family("teleport_update_versions_info", "Versions that are linked, wanted, and run by the agent.")
	m.sample("teleport_update_versions_info", "1", "installed", textOr(r.VersionInstalled, ""), "desired", textOr(r.VersionDesired, ""),
		"running", textOr(r.Agent.Version, ""), "previous", textOr(r.VersionPrevious, ""))
	if !r.unread {
		m.gauge("teleport_update_enabled", "Whether updates are enabled.", boolean(r.UpdatesEnabled))
	}
	if r.Agent.ActiveState != nil {
		m.gauge("teleport_update_agent_running", "Whether the agent's unit is active, and no condition says that the agent is down.",
			boolean(*r.Agent.ActiveState == "active" && !r.has(decision.AgentDown)))
	}
	if r.Agent.Restarts != nil {
		m.gauge("teleport_update_agent_restarts", "Restarts by systemd since somebody started the agent.", strconv.Itoa(*r.Agent.Restarts))
	}
	failing := cmp.Or(r.Failing, &FailingReport{}).Count
	m.gauge("teleport_update_failing_runs", "Runs of the timer that failed, in a row.", strconv.Itoa(failing))
	m.time("teleport_update_last_attempt_timestamp_seconds", "When the last attempt to change the version ended.", r.UpdateTimeLast)
	m.time("teleport_update_last_success_timestamp_seconds", "When a version was last changed with success.", r.LastSuccess)
	m.time("teleport_update_last_run_timestamp_seconds", "When a run of the timer last ended.", r.Updater.LastRun)
	m.time("teleport_update_find_asked_timestamp_seconds", "When find answered last.", r.DesiredCheckedAt)
	m.print("# EOF\n")
	return m.err
}

func allStates() (all []decision.State) {
	for _, c := range decision.Checks {
		if !slices.Contains(all, c.State) {
			all = append(all, c.State)
		}
	}
	return all
}

// metrics writes families in order, and keeps the first error.
type metrics struct {
	w   io.Writer
	err error
}

func (m *metrics) print(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format, args...)
	}
}

func (m *metrics) family(name, help string) {
	m.print("# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
}

func (m *metrics) gauge(name, help, value string) {
	m.family(name, help)
	m.sample(name, value)
}

func (m *metrics) time(name, help string, t *time.Time) {
	if t != nil {
		m.gauge(name, help, strconv.FormatInt(t.Unix(), 10))
	}
}

// sample writes one line; labels are names and values in turn.
func (m *metrics) sample(name, value string, labels ...string) {
	var all []string
	for n := 0; n < len(labels); n += 2 {
		all = append(all, fmt.Sprintf("%s=%s", labels[n], quoteLabel(labels[n+1])))
	}
	if len(all) > 0 {
		name += "{" + strings.Join(all, ",") + "}"
	}
	m.print("%s %s\n", name, value)
}

func quoteLabel(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func boolean(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
