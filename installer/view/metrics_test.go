package view

import (
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// node_exporter reads such a file with this parser.
func TestTheMetricsAreReadByThePrometheusLibrary(t *testing.T) {
	v, odd, running, active := "1.1.0", `a"b\c`, "1.0.0", "active"
	r := Status{State: decision.Unstable, VersionInstalled: &v, VersionDesired: &odd, UpdatesEnabled: true, UpdateTimeLast: &noon,
		Agent: AgentReport{ActiveState: &active, Version: &running, Restarts: new(7)}, Failing: &FailingReport{Count: 3}, Conditions: []decision.Condition{{Type: decision.RestartPending}}}
	var text strings.Builder
	must(t, r.OpenMetrics(&text))
	if !strings.HasSuffix(text.String(), "# EOF\n") {
		t.Error("OpenMetrics wants an end")
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	must(t, err)
	value := func(name string) float64 {
		t.Helper()
		if families[name] == nil {
			t.Fatalf("there is no %s in\n%s", name, text.String())
		}
		return families[name].Metric[0].GetGauge().GetValue()
	}
	for name, want := range map[string]float64{
		"teleport_update_enabled": 1, "teleport_update_agent_running": 1, "teleport_update_agent_restarts": 7, "teleport_update_failing_runs": 3,
		"teleport_update_last_attempt_timestamp_seconds": float64(noon.Unix()), "teleport_update_versions_info": 1,
	} {
		if got := value(name); got != want {
			t.Errorf("%s is %v; want %v", name, got, want)
		}
	}
	if families["teleport_update_last_success_timestamp_seconds"] != nil {
		t.Error("a time is invented")
	}
	labels := map[string]string{}
	for _, l := range families["teleport_update_versions_info"].Metric[0].Label {
		labels[l.GetName()] = l.GetValue()
	}
	if labels["installed"] != v || labels["desired"] != odd || labels["running"] != running || labels["previous"] != "" {
		t.Errorf("versions: %v", labels)
	}
	for _, m := range families["teleport_update_condition"].Metric {
		if name := m.Label[0].GetValue(); (m.GetGauge().GetValue() == 1) != (name == string(decision.RestartPending)) {
			t.Errorf("condition %s: %v", name, m.GetGauge().GetValue())
		}
	}
	on := map[string]bool{}
	for _, m := range families["teleport_update_state"].Metric {
		on[m.Label[0].GetValue()] = m.GetGauge().GetValue() == 1
	}
	for _, s := range allStates() {
		if is, ok := on[string(s)]; !ok || is != (s == decision.Unstable) {
			t.Errorf("state %s: %v, %v", s, is, ok)
		}
	}
}

// A unit may stay active while the agent is down: whoever is alarmed by the metric hears of it.
func TestAnActiveUnitOfAnAgentThatIsDownDoesNotRunByTheMetrics(t *testing.T) {
	for condition, want := range map[decision.Type]string{decision.RestartPending: "1", decision.AgentDown: "0"} {
		var text strings.Builder
		r := Status{Agent: AgentReport{ActiveState: new("active")}, Conditions: []decision.Condition{{Type: condition}}}
		must(t, r.OpenMetrics(&text))
		if line := "\nteleport_update_agent_running " + want + "\n"; !strings.Contains(text.String(), line) {
			t.Errorf("with %s: want %q in\n%s", condition, line, text.String())
		}
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
