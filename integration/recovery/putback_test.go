//go:build hosts

package recovery

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// A power cut in the middle of a transaction to a version that fails leaves nothing of updates.yaml and of
// the journal. The boot brings back the version before with its database, and the ways out that are
// named lead to a host that is well.
func TestAPowerCutThatEmptiesAllRecords(t *testing.T) {
	t.Parallel()
	for name, wayOut := range map[string]func(s *scene, config string){
		"with a backup of updates.yaml": func(s *scene, config string) { s.Configure(config) },
		"without one": func(s *scene, _ string) {
			s.Must("rm", store+"/updates.yaml")
			s.Wants("1.0.0")
			s.Enable()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0")
			s.Release(release.Spec{Version: "1.1.0", Schema: 2, Variant: stamp.CrashLoops, CrashAfter: 4 * time.Second})
			s.RunsOn("1.0.0")
			rows := s.Live()
			config := s.Read(store + "/updates.yaml")
			s.Wants("1.1.0")
			time.Sleep(time.Second) // outcomes are known by the second, and the one of the enable is over
			s.MidWatch("1.1.0")
			s.Must("sh", "-c", "cd "+store+" && : >updates.yaml && : >journal.json && sync")
			s.Check(s.Kill())
			s.Check(s.Boot(t.Context()))
			s.LinkedFiles("1.0.0")
			s.Lost(rows, "1.0.0")
			for range 2 {
				s.StatusIs("needs_attention")
				if got := s.Status().Explanation; !strings.Contains(got, "the file is empty") || !strings.Contains(got, "`teleport-update enable`") {
					t.Errorf("status explains: %s", got)
				}
				if metrics := s.Must(updater, "status", "--format", "openmetrics"); !strings.Contains(metrics, `teleport_update_state{state="needs_attention"} 1`+"\n") {
					t.Errorf("the metrics of status:\n%s", metrics)
				}
				s.Tick()
			}
			wayOut(s, config)
			s.Wants("1.0.0")
			s.Tick()
			s.Serves("1.0.0")
			s.Lost(rows, "1.0.0")
			if got := s.Status(); len(got.Conditions) > 0 && got.Conditions[0].Severity == "fault" {
				t.Errorf("status says %s", got.Explanation)
			}
		})
	}
}

// Somebody puts back the updater's records as they were in the middle of a transaction, a week ago. The
// version that runs today goes on with its database, at the boot, too, and the command that status
// names ends it.
func TestACopyOfTheRecordsIsPutBackLater(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.Release(release.Spec{Version: "1.2.0", Schema: 3})
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	s.KilledInMidWatch("1.1.0")
	s.Must("cp", "-a", store, "/root/copy")
	s.Tick()
	s.Serves("1.1.0")
	s.Wants("1.2.0")
	s.Must(updater, "update", "--now")
	s.Serves("1.2.0")
	rows := s.Live() // an agent that systemd kills in its stop leaves rows beside the database
	s.Must("sh", "-ec", "systemctl stop teleport; rm -rf "+store+"; cp -a /root/copy "+store)
	s.Set(find.Answer{Version: "1.2.0", Edition: version.OSS})
	s.Check(s.Kill())
	s.Check(s.Boot(t.Context()))
	for range 2 {
		s.LinkedFiles("1.2.0")
		s.Tick()
	}
	s.StatusIs("needs_attention")
	if got := s.Status(); !strings.Contains(got.Explanation, "`teleport-update pin 1.2.0`") {
		t.Errorf("status explains: %s", got.Explanation)
	}
	s.Must(updater, "pin", "1.2.0")
	s.Serves("1.2.0")
	if d := s.Live(); d.Schema != 3 || d.Rows < rows.Rows || d.Integrity != "ok" {
		t.Errorf("the database holds %v, and held %v", d, rows)
	}
	s.StatusIs("pinned")
}

// A version that was switched to while nobody ran the agent fails when somebody starts it, as status
// advises: the timer goes back, with the database.
func TestAnUntriedVersionThatFailsIsLeft(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2, Variant: stamp.MigratesThenExits})
	s.RunsOn("1.0.0")
	rows := s.Live()
	s.Must("systemctl", "disable", "--now", "teleport")
	s.Must("sh", "-c", "echo '{[ broken' >"+store+"/1.0.0/manifest")
	s.Wants("1.1.0")
	s.Must(updater, "update", "--now")
	s.Linked("1.1.0")
	const untried = "which has not run on this host yet: the next run of the timer goes back to version 1.0.0"
	if got := s.Status().Explanation; !strings.Contains(got, untried) {
		t.Errorf("status explains: %s", got)
	}
	s.Try("systemctl", "enable", "--now", "teleport")
	for range 3 {
		time.Sleep(time.Second)
		s.Tick() // one may look between two crashes
	}
	s.Serves("1.0.0")
	s.Lost(rows, "1.0.0")
	s.StatusIs("backing_off")
}
