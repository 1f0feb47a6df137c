//go:build hosts

package operator

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

func TestStatusFollowsItsSchemaInEveryState(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart, Unit: release.Unit{NoReload: true}})

	s.StatusIs("disabled") // never enabled
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	s.StatusIs("idle")
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	s.StatusIs("waiting") // for what is wanted
	s.Must(updater, "pin")
	s.StatusIs("pinned")
	s.Must(updater, "unpin")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Must(updater, "rollback")
	s.StatusIs("held")
	s.Must(updater, "update") // what is wanted now is held back; a later wish is not
	s.Wants("1.2.0")
	s.Fails(1, "was not healthy", updater, "update")
	s.StatusIs("backing_off")
	s.Wants("0.9.0")
	s.Fails(1, "refused", updater, "update")
	s.StatusIs("needs_attention")
	s.Breaks(cluster.FindDown)
	s.StatusIs("needs_attention") // from what was heard last
	s.Breaks(nil)
	s.Must(updater, "disable")
	s.StatusIs("disabled")
}

// Somebody's automation writes updates.yaml anew and does not know the version that
// runs: it is switched from all the same, with its database, and back to.
func TestALostActiveVersionIsSettledByTheNextTransaction(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.2.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2, Variant: stamp.MigratesThenExits})
	s.RunsOn("1.0.0")
	kept := regexp.MustCompile(`(?m)^.*active_version:.*\n`).ReplaceAllString(s.Read(store+"/updates.yaml"), "")
	s.Configure(kept)
	s.StatusIs("needs_attention")
	if got := s.Status().Explanation; !strings.Contains(got, "the update to the version that the cluster wants repairs it") {
		t.Errorf("status explains: %s", got)
	}
	rows := s.Live()

	s.Wants("1.1.0")
	s.Fails(1, "was not healthy", updater, "update")
	if got := s.Must("readlink", linkDir+"/teleport"); strings.TrimSpace(got) != programs+"/1.0.0/bin/teleport" {
		t.Errorf("the link leads to %q", got)
	}
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
	s.Lost(rows, "1.0.0")
	s.StatusIs("needs_attention")

	s.Wants("1.2.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.Serves("1.2.0")
	s.StatusIs("idle")
}

func TestSetupAndVersion(t *testing.T) {
	s := newScene(t)
	s.Must(updater, "setup")
	for _, unit := range []string{"teleport-update.timer", "teleport-update-recover.service"} {
		if got := s.Show(unit, "UnitFileState"); got != "enabled" {
			t.Errorf("%s is %s after setup", unit, got)
		}
	}
	if got := s.Show("teleport-update.timer", "ActiveState"); got != "active" {
		t.Errorf("the timer is %s after setup", got)
	}
	// Without a configuration a tick has nothing to do.
	if code := s.Tick(); code != 0 || s.Asked.Load() != 0 {
		t.Errorf("a tick of a host that was only set up ends with %d and asks %d times", code, s.Asked.Load())
	}
	s.Must(updater, "setup") // again
	var v struct {
		Version string
		Schema  int
	}
	if err := json.Unmarshal([]byte(s.Must(updater, "version", "--format", "json")), &v); err != nil || v.Version == "" || v.Schema == 0 {
		t.Errorf("version prints %+v: %v", v, err)
	}
}
