package rollout

import (
	"fmt"
	"strings"
	"testing"
)

func TestPreview(t *testing.T) {
	three := regular("{name: a, days: ['*'], start_hour: 10}", "{name: b, days: ['*'], start_hour: 10}", "{name: c, days: ['*'], start_hour: 13, wait_hours: 3}")
	timeBased := "strategy: time-based, maintenance_window_duration: 2h, " + regular("{name: a, days: ['*'], start_hour: 10}", "{name: b, days: [Wed], start_hour: 1}")
	for _, tc := range []struct {
		name, agents, now string
		edit              func(w *world)
		want              string
	}{
		{"nothing has begun", three, "Mon 10:30", nil, "a Mon 10:30, b Mon 10:30, c Mon 14:00"},
		{"one is active", three, "Mon 11:30", func(w *world) { w.group("a").State, w.group("a").StartTime = Active, when("Mon 10:00") }, "a Mon 10:00, b Tue 10:00, c Tue 14:00"},
		{"one is done", three, "Mon 10:30", func(w *world) {
			w.group("a").State, w.group("a").DoneTime, w.group("a").StartTime = Done, when("Mon 10:20"), when("Mon 10:00")
		}, "a Mon 10:00, b Mon 10:30, c Mon 14:00"},
		{"one is halted", three, "Mon 10:30", func(w *world) { w.group("a").Halted = &Halted{Reason: HostsFailed} }, "a - it is halted (hosts_failed), b - group a has to be done first, c - group b has to be done first"},
		{"one was rolled back", three, "Mon 10:30", func(w *world) { w.group("a").State = RolledBack }, "a - it was rolled back, b - group a has to be done first, c - group b has to be done first"},
		{"updates are suspended", three, "Mon 10:30", func(w *world) { w.version.Spec.Agents.Mode = Suspended }, "a - updates are suspended, b - updates are suspended, c - updates are suspended"},
		{"a critical version", three, "Mon 16:30", func(w *world) { w.version.Spec.Agents.Schedule = Critical }, "a Mon 16:30, b Mon 16:30, c Mon 16:30"},
		{"time-based", timeBased, "Mon 11:30", nil, "a Mon 11:30, b Wed 01:00"},
		{"time-based, after the window", timeBased, "Mon 11:30", func(w *world) { w.group("a").State, w.group("a").WindowEnd = Done, when("Mon 12:00") }, "a Tue 10:00, b Wed 01:00"},
		{"time-based and critical", timeBased, "Mon 11:30", func(w *world) { w.version.Spec.Agents.Schedule = Critical }, "a Mon 11:30, b Mon 11:30"},
		{"another version", three, "Mon 10:30", func(w *world) { w.group("a").State = Done; w.version.Spec.Agents.TargetVersion = "17.3.0" }, "a Mon 10:30, b Mon 10:30, c Mon 14:00"},
	} {
		w := newWorld(t, strings.Replace(tc.agents, "start_hour: 13, wait", "start_hour: 14, wait", 1))
		w.tick()
		if tc.edit != nil {
			tc.edit(w)
		}
		var got []string
		for _, s := range Preview(w.config, w.version, w.rollout, when(tc.now)) {
			at := "- " + s.Waits
			if s.Waits == "" {
				at = s.At.Format("Mon 15:04")
			}
			got = append(got, s.Group+" "+at)
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s: %s; want %s", tc.name, text, tc.want)
		}
	}
}

func ExamplePreview() {
	list, _ := Parse([]byte(`
kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 13}
      - {name: prod, days: [Mon, Tue, Wed, Thu, Fri], start_hour: 15, wait_hours: 24}
---
kind: autoupdate_version
metadata: {name: autoupdate-version}
spec: {agents: {target_version: 17.2.1}}
`))
	for _, s := range Preview(list[0].(*Config), list[1].(*Version), nil, when("Thu 13:30")) {
		fmt.Println(s.Group, s.State, s.At.Format("Mon 15:04"))
	}
	// Output:
	// dev unstarted Thu 13:30
	// prod unstarted Fri 15:00
}
