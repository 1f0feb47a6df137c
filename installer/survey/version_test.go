package survey

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
)

// serves is a host whose agent serves, and whose active version came from another.
type serves struct {
	counted
	previous string
	had      *bool
}

func (s serves) Config() (state.Config, error) {
	c, err := s.counted.Config()
	c.Status.PreviousVersion, c.Status.PreviousEdition = s.previous, version.OSS
	return c, err
}

func (s serves) CheckDatabaseThere(_ int, had bool) error { *s.had = had; return nil }

// What the agent's database was when a version was left says that the agent had one, although nobody has
// noted the schema of today.
func TestAnAgentThatLeftADatabaseHadOne(t *testing.T) {
	for _, tc := range []struct {
		backedUp, previous string
		had                bool
	}{{"", "0.9.0", false}, {"0.9.0", "0.9.0", true}, {"0.9.0", "", false}, {"0.9.0", "0.8.0", false}} {
		c, had := counted{reads: map[string]int{}}, false
		s, root := surveyOf(t, c)
		h := serves{c, tc.previous, &had}
		s.from.StateFiles, s.from.Place = h, h
		s.agent.read, s.agent.value = true, Agent{Sight: transaction.Sight{State: state.AgentRunning}, Process: procfs.Process{ID: procfs.ID{PID: 7}}}
		if tc.backedUp != "" {
			release := filepath.Join(root, "data", "versions", tc.backedUp)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.MkdirAll(filepath.Join(release, "backup"), 0o700))
			for name, text := range map[string]string{
				"edition": "oss\n", "manifest": "", "sha256": strings.Repeat("ab", 32) + "\n", "backup/backup.yaml": "version: v1\nkind: db_backup\nspec:\n" +
					"  creation_time: 2026-01-01T00:00:00Z\n  version: 0.9.0\n  edition: oss\n  proxy: https://proxy\n  size: 1\n  crc32c: \"00000000\"\n",
			} {
				must(os.WriteFile(filepath.Join(release, name), []byte(text), 0o600))
			}
		}
		if _, err := s.Starts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if had != tc.had {
			t.Errorf("%+v: the agent had a database: %v", tc, had)
		}
	}
}
