package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/internal/version"
)

// What these decoders let through later becomes paths, URLs and commands of root's.

// FuzzConfig: whatever updates.yaml holds, it is refused, or it is a
// configuration that is the same after it was written and read again.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("version: v1\nkind: agent_versions\nspec: {proxy: p, enabled: true, active_version: 1.0.0}\nstatus: {active_edition: oss}\n"))
	f.Add([]byte("version: v1\nkind: agent_versions\nspec: {active_version: ../../x}\n"))
	f.Add([]byte("version: &v v1\nkind: agent_versions\nx: [*v, *v]\n<<: {spec: {proxy: y}}\n"))
	f.Add([]byte("version: v1\nkind: agent_versions\nstatus: {failed: {next_attempt: 2024-01-01T00:00:00Z, attempts: -1}, held: null}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "updates.yaml")
		write(t, path, data)
		c, err := LoadConfig(path)
		if err != nil {
			return
		}
		for _, v := range []string{c.Spec.ActiveVersion, c.Status.PreviousVersion} {
			if clean, err := version.Parse(v); v != "" && (err != nil || clean != v) {
				t.Errorf("%q was taken for a version", v)
			}
		}
		if err := c.Save(path); err != nil {
			t.Fatalf("%q cannot be written again: %v", data, err)
		}
		again, err := LoadConfig(path)
		if err != nil {
			t.Fatalf("%q was written as what cannot be read: %v", data, err)
		}
		if again.Spec.Proxy != c.Spec.Proxy || again.Spec.ActiveVersion != c.Spec.ActiveVersion || again.Spec.Enabled != c.Spec.Enabled || again.Spec.Pinned != c.Spec.Pinned {
			t.Errorf("%+v became %+v", c.Spec, again.Spec)
		}
	})
}

// FuzzJournal: a journal is acted on, or refused with a *JournalError.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"schema":1,"id":"x","phase":"switched","started":"2024-05-06T12:00:00Z","boot_id":"","from":null,"to":{"version":"1.1.0","edition":"oss"},"links":null,"unit":{"path":"/u"},"agent":{"state":"unknown"},"database":{"plan":"keep","path":"/d"},"commit":{}}`))
	f.Add([]byte(`{"schema":1,"phase":"proven","to":{"version":"../../x"}}`))
	f.Add([]byte(`{"schema":99}`))
	f.Add([]byte(`{"schema":1,"phase":"begun","links":[{"path":"/usr/local/bin/tsh","target":"/x","before":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "journal.json")
		write(t, path, data)
		j, err := LoadJournal(path)
		if err != nil {
			if _, ok := errors.AsType[*JournalError](err); !ok {
				t.Errorf("%v; want a *JournalError", err)
			}
			return
		}
		if j.ReadableFrom > Schema {
			t.Errorf("a journal for schema %d was taken", j.ReadableFrom)
		}
		for _, r := range []*Tree{&j.To, j.From} {
			if r == nil || r.Version == "" {
				continue
			}
			if clean, err := version.Parse(r.Version); err != nil || clean != r.Version {
				t.Errorf("%q was taken for a version", r.Version)
			}
		}
	})
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
