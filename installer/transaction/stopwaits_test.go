package transaction

import (
	"testing"

	"teleport-update/installer/host"
	"teleport-update/systemd"
)

// What systemd does not do with the version before says nothing about the next one: a stop that it does not
// begin, or that fails, ends the transaction with the agent as it was, and holds nothing against the
// version.
func TestAStopThatSystemdDoesNotDoIsNotHeldAgainstTheVersion(t *testing.T) {
	for name, job := range map[string]*systemd.JobError{
		"it waits for a unit that stops first": {Verb: systemd.VerbStop, Result: systemd.ResultWaiting, Err: &systemd.BlockedError{By: []string{"sidecar.service"}}},
		"it fails":                             {Verb: systemd.VerbStop, Result: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, "1.0.0", "0.9.0", map[string]behaviour{"1.0.0": one, "0.9.0": {schema: 1, fate: holds}})
			m.left("0.9.0")
			served := m.main
			m.before = func(call string) error {
				if call == "stop" {
					return job
				}
				return nil
			}
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Downgrade)) })
			if err == nil || m.main != served || host.Exists(m.Host.Paths.Journal()) {
				t.Errorf("it ends with %v, an agent that served on: %v, an open journal: %v", err, m.main == served, host.Exists(m.Host.Paths.Journal()))
			}
			c, err := m.FreshConfig()
			must(t, err)
			if c.Status.Failed != nil || c.Status.LastUpdate == nil || c.Status.LastUpdate.Target != "0.9.0" {
				t.Errorf("failed: %+v, last: %+v", c.Status.Failed, c.Status.LastUpdate)
			}
			m.before = nil
			m.endsOn("1.0.0")
		})
	}
}
