//go:build hosts

package integration

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"teleport-update/find"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

func TestStatusFollowsItsSchemaInEveryState(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart, Unit: release.Unit{NoReload: true}})

	s.statusIs("disabled") // never enabled
	s.running("1.0.0")
	s.statusIs("idle")
	s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	s.statusIs("idle") // and something is wanted
	s.Must(updater, "pin")
	s.statusIs("pinned")
	s.Must(updater, "unpin")
	s.wants("1.1.0")
	s.Must(updater, "update")
	s.Must(updater, "rollback")
	s.statusIs("held")
	s.wants("1.2.0")
	s.fails(1, "did not hold", updater, "update")
	s.statusIs("backing_off")
	s.wants("0.9.0")
	s.fails(1, "refused", updater, "update")
	s.statusIs("needs_attention")
	s.breaks(badGateway)
	s.statusIs("needs_attention") // from what was heard last
	s.breaks(nil)
	s.Must(updater, "disable")
	s.statusIs("disabled")
}

// statusIs asserts the state, and that what status prints follows its schema
// and can be read by a person.
func (s *scene) statusIs(state string) {
	s.t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("../docs/status.schema.json")
	if err != nil {
		s.t.Fatal(err)
	}
	out := s.Must(updater, "status")
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		s.t.Fatalf("status prints %q: %v", out, err)
	}
	if err := schema.Validate(value); err != nil {
		s.t.Errorf("%s: %v\n%s", state, err, out)
	}
	if got := value.(map[string]any)["state"]; got != state {
		s.t.Errorf("status says %v; want %s:\n%s", got, state, out)
	}
	human := s.Must(updater, "status", "--format", "text")
	if !strings.Contains(human, state) || strings.Contains(human, "<nil>") {
		s.t.Errorf("%s: as text:\n%s", state, human)
	}
}

// Somebody's automation writes updates.yaml anew and does not know the version that
// runs: it is switched from all the same, with its database, and back to.
func TestALostActiveVersionIsSettledByTheNextSwitch(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.2.0")
	s.release(release.Spec{Version: "1.1.0", Schema: 2, Variant: stamp.MigratesThenExits})
	s.running("1.0.0")
	kept := regexp.MustCompile(`(?m)^.*active_version:.*\n`).ReplaceAllString(s.Read(store+"/updates.yaml"), "")
	s.configure(kept)
	s.statusIs("needs_attention")
	if got := s.status().Explanation; !strings.Contains(got, "the next switch to the version that find wants settles it") {
		t.Errorf("status explains: %s", got)
	}
	rows := s.database()

	s.wants("1.1.0")
	s.fails(1, "did not hold", updater, "update")
	if got := s.Must("readlink", linkDir+"/teleport"); strings.TrimSpace(got) != store+"/1.0.0/bin/teleport" {
		t.Errorf("the link leads to %q", got)
	}
	host.Wait(t, patience, func() error { return s.executes(store + "/1.0.0/bin/teleport") })
	s.lost(rows, "1.0.0")
	s.statusIs("needs_attention")

	s.wants("1.2.0")
	if code := s.tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.serves("1.2.0")
	s.statusIs("idle")
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
	if code := s.tick(); code != 0 || s.asked.Load() != 0 {
		t.Errorf("a tick of a host that was only set up ends with %d and asks %d times", code, s.asked.Load())
	}
	s.Must(updater, "setup") // again
	var v map[string]string
	if err := json.Unmarshal([]byte(s.Must(updater, "version", "--format", "json")), &v); err != nil || v["version"] == "" {
		t.Errorf("version prints %v: %v", v, err)
	}
}
