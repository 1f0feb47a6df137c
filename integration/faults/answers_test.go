//go:build hosts

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// says runs a command that ends with a code and says something.
func (w *World) says(t *testing.T, code int, says string, args ...string) string {
	t.Helper()
	r, err := w.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != code || !strings.Contains(r.Output, says) {
		t.Errorf("%v: exit code %d, want %d, and %q in:\n%s", args, r.Code, code, says, r.Output)
	}
	return r.Output
}

// rewrite changes updates.yaml as a person does.
func (w *World) rewrite(t *testing.T, change func(text string) string) {
	t.Helper()
	path := filepath.Join(w.Versions(), "updates.yaml")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(change(string(data))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rfdFile is updates.yaml as RFD 0169 prints it (§Filesystem).
const rfdFile = `version: v1
kind: agent_versions
spec:
  # proxy specifies the Teleport proxy address to retrieve the agent version and update configuration from.
  proxy: mytenant.teleport.sh
  # enabled specifies whether auto-updates are enabled, i.e., whether teleport-updater update is allowed to update the agent.
  enabled: true
  # active_version specifies the active (symlinked) deployment of the telepport agent.
  active_version: 15.1.1
`

func TestTheFileThatTheRFDPrintsIsEnough(t *testing.T) {
	w := newWorld(t)
	file := strings.NewReplacer("mytenant.teleport.sh", w.address, "15.1.1", V2).Replace(rfdFile)
	template := "--template=" + w.Enable()[4]
	for name, commands := range map[string][][]string{
		"the timer's run":  {{"update"}},
		"enable":           {{"enable", template}},
		"a rollback to it": {{"enable", template}, {"update"}},
		"pin and unpin":    {{"pin"}, {"unpin"}, {"update"}},
		"uninstall":        {{"uninstall"}},
		"a new host":       {{"enable", template}, {"update"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := w.Reset(); err != nil {
				t.Fatal(err)
			}
			w.Wants(V2)
			if name != "a new host" {
				if err := w.climb(t.Context(), V1, V2); err != nil {
					t.Fatal(err)
				}
			} else if err := os.MkdirAll(w.Versions(), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(w.Versions(), "updates.yaml"), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "a new host" {
				w.says(t, 0, `"agent_version_installed": null`, "status")
			} else {
				w.says(t, 0, `"agent_edition_installed": "oss"`, "status")
				w.says(t, 0, "", "verify")
			}
			for _, args := range commands {
				w.says(t, 0, "", args...)
			}
			if name != "uninstall" {
				w.says(t, 0, `"agent_version_installed": "`+V2+`"`, "status")
				w.says(t, 0, "", "verify")
			}
		})
	}
}

// Each field that RFD 0169 does not have may be missing, whatever wrote the rest.
func TestEachFieldThatTheRFDDoesNotHaveMayBeMissing(t *testing.T) {
	w := newWorld(t)
	if err := w.climb(t.Context(), V1, V2); err != nil {
		t.Fatal(err)
	}
	const more = `
  failed: {version: 9.9.9, edition: oss, sha256: aa, attempts: 1, next_attempt: 2026-01-02T05:04:05Z, error: it died}
  failed_before: [{version: 9.9.8, edition: oss, attempts: 1, next_attempt: 2026-01-02T05:04:05Z, error: it died}]
  interrupted: {version: 9.9.9, edition: oss, count: 1}
  held: {version: 9.9.9, edition: oss, since: 2026-01-02T05:04:05Z}
  refused: {version: 9.9.9, edition: oss, reason: none}
  packages_left: []
`
	var whole yaml.Node
	w.rewrite(t, func(text string) string {
		text = strings.TrimRight(text, "\n") + more
		text = strings.Replace(text, "  enabled: true\n", "  enabled: true\n  group: staging\n  health: {window: 5s, ready_url: \"\"}\n  backup: {max_age: 720h}\n", 1)
		if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
			t.Fatal(err)
		}
		return text
	})
	ofTheRFD := map[string]bool{"version": true, "kind": true, "spec": true, "spec.proxy": true, "spec.enabled": true, "spec.active_version": true, "spec.url_templates": true}
	tried := 0
	var each func(n *yaml.Node, path string)
	each = func(n *yaml.Node, path string) {
		if n.Kind == yaml.DocumentNode {
			each(n.Content[0], "")
		}
		if n.Kind != yaml.MappingNode {
			return
		}
		for k := 0; k < len(n.Content); k += 2 {
			name := strings.TrimPrefix(path+"."+n.Content[k].Value, ".")
			each(n.Content[k+1], name)
			if ofTheRFD[name] {
				continue
			}
			tried++
			t.Run("without "+name, func(t *testing.T) {
				left := n.Content
				n.Content = append(append([]*yaml.Node{}, left[:k]...), left[k+2:]...)
				data, err := yaml.Marshal(&whole)
				n.Content = left
				if err != nil {
					t.Fatal(err)
				}
				w.rewrite(t, func(string) string { return string(data) })
				w.says(t, 0, "agent_version_installed", "status")
				w.says(t, 0, "", "verify")
				if !strings.HasPrefix("status.previous_version", name) { // else nothing needs it
					w.says(t, 0, "", "rollback", "--dry-run", V1)
				}
				w.says(t, 0, "is active and wanted", "update")
				w.rewrite(t, func(string) string { return string(data) })
				w.says(t, 0, "", "enable")
				if _, err := os.Lstat(filepath.Join(w.Versions(), V1)); err != nil {
					if err := errors.Join(w.Reset(), w.climb(t.Context(), V1, V2)); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
	each(&whole, "")
	if tried < 20 {
		t.Errorf("only %d fields were left out", tried)
	}
}

func TestAClusterThatNamesNoVersionChangesNothing(t *testing.T) {
	w := newWorld(t)
	const none = "the cluster names no version for this host"
	w.Wants("")
	w.says(t, 1, none+", and there is none on it; nothing was changed: set a version in the cluster", w.Enable()...)
	w.says(t, 1, "there is no active version to pin", "pin")
	w.says(t, 1, "there is no active version to pin", "pin", V1)

	if err := w.climb(t.Context(), V1); err != nil {
		t.Fatal(err)
	}
	w.Wants("9.9.9")
	w.says(t, 1, "9.9.9", "update")
	w.says(t, 0, `"agent_version_desired": "9.9.9"`, "status")
	w.Wants("")
	before, err := os.ReadFile(filepath.Join(w.Versions(), "updates.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"update"}, {"update", "--now"}, {"update", "--dry-run"}} {
		w.says(t, 0, none, args...)
	}
	if after, err := os.ReadFile(filepath.Join(w.Versions(), "updates.yaml")); string(after) != string(before) || err != nil {
		t.Errorf("updates.yaml became\n%s\n%v", after, err)
	}
	w.says(t, 0, none, "status", "--format", "text")
	// What find named before is forgotten, where it cannot be asked as well.
	address := w.address
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out := w.says(t, 0, `"agent_version_desired": null`, "status"); strings.Contains(out, "9.9.9\",") && strings.Contains(out, address+"9.9.9") {
		t.Errorf("the last target is not forgotten:\n%s", out)
	}
}

func TestAClusterThatNamesNoVersionCanBeEnabledOnAHostThatHasOne(t *testing.T) {
	w := newWorld(t)
	if err := w.climb(t.Context(), V1); err != nil {
		t.Fatal(err)
	}
	w.Wants("")
	w.says(t, 0, "", "disable")
	w.says(t, 0, "updates are enabled", "enable")
	w.says(t, 0, "pinned", "pin")
	w.says(t, 0, `"agent_version_installed": "`+V1+`"`, "status")
}

// With the version on every disk, all hosts of a cluster that goes back would restart at
// once.
func TestAChangeThatFindOrdersWaitsAlsoWhenTheVersionIsOnDisk(t *testing.T) {
	w := newWorld(t)
	if err := w.climb(t.Context(), V1, V2); err != nil {
		t.Fatal(err)
	}
	const waits = "waiting a random time before the change"
	w.Wants(V1)
	w.jitter(1)
	w.says(t, 0, waits, "update")
	w.says(t, 0, `"agent_version_installed": "`+V1+`"`, "status")
	// Who waits here waits for an hour.
	w.jitter(3600)
	for _, args := range [][]string{{"update", "--now"}, {"rollback"}, {"rollback", V2}, {"pin", V1}} {
		w.Wants(V2)
		w.jitter(3600)
		if out := w.says(t, 0, "", args...); strings.Contains(out, waits) {
			t.Errorf("%v waits:\n%s", args, out)
		}
	}
}

// Any version that the templates have can be pinned, an older one by the rules of
// downgrades.
func TestPinInstallsAnOlderVersionByTheRulesOfDowngrades(t *testing.T) {
	w := newWorld(t)
	if err := w.climb(t.Context(), V1, V2, V3); err != nil {
		t.Fatal(err)
	}
	active := func(v string) {
		t.Helper()
		w.says(t, 0, `"agent_version_installed": "`+v+`"`, "status")
	}
	w.says(t, 1, "run `teleport-update pin "+V1+" --allow-downgrade`", "pin", V1)
	w.says(t, 1, "`teleport-update pin "+V1+" --allow-downgrade` installs this one", "rollback", V1)
	active(V3)
	if got, err := databaseAt(w.Database()); !strings.HasPrefix(got, V3) || err != nil {
		t.Fatalf("the database is of %s, %v", got, err)
	}
	// The one before is here, with the database that it had.
	w.says(t, 0, "", "pin", V2)
	active(V2)
	if got, err := databaseAt(w.Database()); !strings.HasPrefix(got, V2) || err != nil {
		t.Errorf("the database is of %s, %v", got, err)
	}
	w.says(t, 1, "9.9.9", "pin", "9.9.9")
	active(V2)
	w.says(t, 0, "", "pin", V1, "--allow-downgrade")
	active(V1)
	if got, err := databaseAt(w.Database()); !strings.HasPrefix(got, V2) || err != nil {
		t.Errorf("the database of today was not kept: it is of %s, %v", got, err)
	}
	w.says(t, 0, `"pinned": true`, "status")
	w.Wants(V3)
	w.says(t, 0, "the host is pinned", "update")
}
