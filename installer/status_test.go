package installer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/version"
)

// rfdFields are the fields of RFD 0169 (§Status), in its order, with an example
// of its type.
var rfdFields = map[string]any{
	"agent_version_installed":  "",
	"agent_version_desired":    "",
	"agent_version_previous":   "",
	"agent_edition_installed":  "",
	"agent_edition_desired":    "",
	"agent_edition_previous":   "",
	"agent_update_time_last":   "",
	"agent_update_time_jitter": 0.0,
	"agent_updates_enabled":    false,
}

// validate checks a report against the schema, and that the schema names each field:
// as it is published, it lets readers find more than it knows.
func validate(t *testing.T, r view.Status) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "status.schema.json"))
	must(t, err)
	if strings.Contains(string(text), "additionalProperties") {
		t.Error("the schema forbids what a later version may add")
	}
	strict, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(string(text), `"properties":`, `"additionalProperties": false, "properties":`)))
	must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource("strict.json", strict))
	schema, err := c.Compile("strict.json")
	must(t, err)
	data, err := json.Marshal(r)
	must(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	must(t, err)
	if err := schema.Validate(value); err != nil {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestStatusFollowsItsSchema(t *testing.T) {
	full := state.Config{Version: "v1", Kind: "agent_versions",
		Spec: state.Spec{Proxy: "http://127.0.0.1:1", Group: "dev", Enabled: true, ActiveVersion: "1.1.0"},
		Status: state.Status{ActiveEdition: version.Enterprise, PreviousVersion: "1.0.0", PreviousEdition: version.OSS,
			LastUpdate: &state.LastUpdate{Time: noon, Target: "1.2.0", Result: state.RolledBack, Error: "it died"},
			Failed:     &state.Failed{Version: "1.2.0", Attempts: 1, NextAttempt: noon.Add(time.Hour), Error: "it died"},
			Held:       &state.Held{Version: "1.2.0", Since: noon},
			Refused:    &state.Refused{Version: "0.9.0", Reason: "no backup"}},
	}
	for name, prepare := range map[string]func(t *testing.T, i *Installer){
		"never enabled": func(t *testing.T, i *Installer) {},
		"everything known, find unreachable": func(t *testing.T, i *Installer) {
			if err := os.MkdirAll(i.Machine.Host.Paths.Versions(), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := full.Save(i.Machine.Host.Paths.Config()); err != nil {
				t.Fatal(err)
			}
			j := &state.Journal{ID: "x", BootID: "boot", Started: noon}
			j.Phase, j.To.Version, j.Verdict.Reason = "switched", "1.2.0", "it died"
			if err := j.Save(i.Machine.Host.Paths.Journal()); err != nil {
				t.Fatal(err)
			}
			writeFile(t, i.Machine.Host.Paths.LastAnswer(), `{"time":"2026-03-01T12:00:00Z","proxy":"http://127.0.0.1:1","group":"dev","version":"1.2.0","edition":"oss","jitter_seconds":60}`)
		},
		"updates.yaml cannot be read": func(t *testing.T, i *Installer) { writeFile(t, i.Machine.Host.Paths.Config(), "{") },
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			prepare(t, i)
			r, err := i.Status(t.Context(), StatusOptions{})
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			validate(t, r)
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				t.Fatal(err)
			}
			for _, field := range []string{"agent_updates_enabled", "pinned", "unproven", "last_skipped_backup"} {
				unread := name == "updates.yaml cannot be read"
				if is, ok := fields[field]; !ok || (is == nil) != unread {
					t.Errorf("%s is %v", field, is)
				}
			}
			for field, example := range rfdFields {
				got, ok := fields[field]
				if !ok {
					t.Errorf("field %s of the RFD is missing", field)
				}
				if got != nil && !sameType(got, example) {
					t.Errorf("field %s is %T; the RFD has %T", field, got, example)
				}
			}
		})
	}
}

func TestStatusOfflineShowsTheLastAnswerWithItsTime(t *testing.T) {
	i := testInstaller(t)
	c := state.Config{Version: "v1", Kind: "agent_versions", Spec: state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: "1.0.0"}, Status: state.Status{ActiveEdition: version.OSS}}
	if err := os.MkdirAll(i.Machine.Host.Paths.Versions(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(i.Machine.Host.Paths.Config()); err != nil {
		t.Fatal(err)
	}
	writeFile(t, i.Machine.Host.Paths.LastAnswer(), `{"time":"2026-03-01T12:00:00Z","proxy":"http://127.0.0.1:1","version":"1.2.0","edition":"oss","jitter_seconds":60}`)
	before := listing(t, i.Machine.Host.Paths.DataDir)
	r, err := i.Status(t.Context(), StatusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.VersionDesired == nil || *r.VersionDesired != "1.2.0" || r.DesiredCheckedAt == nil || !r.DesiredCheckedAt.Equal(noon) || r.DesiredError == nil {
		t.Errorf("desired %+v, asked at %v, error %v", r.VersionDesired, r.DesiredCheckedAt, r.DesiredError)
	}
	// An answer for another proxy is not an answer for this one.
	writeFile(t, i.Machine.Host.Paths.LastAnswer(), `{"time":"2026-03-01T12:00:00Z","proxy":"elsewhere","version":"9.9.9","edition":"oss"}`)
	if r, _ := i.Status(t.Context(), StatusOptions{}); r.VersionDesired != nil {
		t.Errorf("desired %v from another proxy; want null", *r.VersionDesired)
	}
	if after := listing(t, i.Machine.Host.Paths.DataDir); after != before {
		t.Errorf("status changed the host: %s became %s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		b.WriteString(path + " ")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sameType(a, b any) bool {
	switch a.(type) {
	case string:
		_, ok := b.(string)
		return ok
	case float64:
		_, ok := b.(float64)
		return ok
	case bool:
		_, ok := b.(bool)
		return ok
	}
	return false
}

// An updates.yaml that was lost, or written again, does not make the agent somebody
// else's: status does not call that disabled.
func TestStatusDoesNotTakeALostConfigurationForNone(t *testing.T) {
	for name, trace := range map[string]func(*testing.T, *Installer){
		"a link leads into the store": func(t *testing.T, i *Installer) {
			writeFile(t, filepath.Join(i.Machine.Host.Paths.LinkDir, "tsh"), "")
			if err := os.Symlink(filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0/bin/teleport"), filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport")); err != nil {
				t.Fatal(err)
			}
		},
		"what was here before cannot be read": func(t *testing.T, i *Installer) {
			writeFile(t, filepath.Join(i.Machine.Host.Paths.Original(), "before.json"), "{")
		},
		"none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			want, says := decision.Disabled, "updates are disabled"
			if trace != nil {
				want, says = decision.NeedsAttention, "nothing updates it before"
				trace(t, i)
			}
			if r, err := i.Status(t.Context(), StatusOptions{}); err != nil || r.State != want || !strings.Contains(r.Explanation, says) {
				t.Errorf("%s, %s, %v; want %s, %q", r.State, r.Explanation, err, want, says)
			}
		})
	}
}
