//go:build hosts

package units

import (
	"testing"

	"teleport-update/integration/release"
)

// A command before the agent fails when it is run, which nobody can see before: no version is blamed for it, and the agent
// is back once the command succeeds.
func TestACommandBeforeTheAgentThatFailsBlamesNoVersion(t *testing.T) {
	for name, dropIn := range map[string]string{
		"it exits":       "ExecStartPre=/bin/false",
		"it is killed":   "ExecStartPre=/bin/sh -c 'kill -9 $$$$'",
		"a condition is": "ExecCondition=/bin/sh -c 'exit 255'",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Release(release.Spec{Version: "1.0.0", Schema: 1})
			s.Release(release.Spec{Version: "1.1.0", Schema: 2})
			s.RunsOn("1.0.0", "--health-window", "1s")
			s.Updates("1.1.0")
			s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+dropIn+"\n")
			s.Must("systemctl", "daemon-reload")
			s.Try(updater, "rollback")
			s.Tick()
			if got := s.Status().FailedVersion; got != nil {
				t.Errorf("version %s is blamed", *got)
			}
			s.Must("rm", "/etc/systemd/system/teleport.service.d/50-test.conf")
			s.Must("systemctl", "daemon-reload")
			s.Tick()
			s.Tick()
			s.Closed()
			if v := s.Status().VersionInstalled; v != nil {
				s.RunsFrom(s.Executable(*v))
			}
			if got := s.Status().FailedVersion; got != nil {
				t.Errorf("version %s is blamed in the end", *got)
			}
		})
	}
}
