package installer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
)

// A version that was switched to while its agent was stopped changes the tables once it is started: the tables that count are those
// that it is proven with.
func TestTheSchemaIsNotedWhenAVersionIsProven(t *testing.T) {
	h := newWellHost(t)
	change := h.changesTables(t)
	h.config.Status.Unproven, h.config.Status.ActiveSchema = true, change("CREATE TABLE earlier (n INTEGER)")
	must(t, h.config.Save(h.Machine.Host.Paths.Config()))
	want := change("CREATE TABLE later (n INTEGER)")
	(&tick{i: h.Installer}).prove(t.Context(), h.config)
	c, err := state.LoadConfig(h.Machine.Host.Paths.Config())
	if err != nil || c.Status.Unproven || c.Status.ActiveSchema != want {
		t.Errorf("noted: %q, unproven: %v, %v; want %q", c.Status.ActiveSchema, c.Status.Unproven, err, want)
	}
}

// changesTables returns a function that changes the tables of the agent's database, and returns what they are then.
func (h *wellHost) changesTables(t *testing.T) func(sql string) string {
	path, err := h.Machine.Host.Database()
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	return func(sql string) string {
		db, err := sqlite3.Open(path)
		must(t, err)
		must(t, db.Exec(sql))
		must(t, db.Close())
		schema, err := h.Machine.Schema(t.Context())
		must(t, err)
		return schema
	}
}

// A version may change its tables long after it was proven. Once it was healthy on them for an hour at most, they are its own.
func TestTablesThatAHealthyVersionChangesAreItsOwn(t *testing.T) {
	h := newWellHost(t)
	change := h.changesTables(t)
	proven := change("CREATE TABLE earlier (n INTEGER)")
	h.config.Status.ActiveSchema = proven
	must(t, h.config.Save(h.Machine.Host.Paths.Config()))
	later := change("CREATE TABLE later (n INTEGER)")
	now := h.Machine.Timestamp()
	for _, tc := range []struct {
		name   string
		seen   time.Time
		spoils func(c *state.Config)
		want   string
	}{
		{"half an hour after the last look", now.Add(-30 * time.Minute), nil, proven},
		{"a version that is not proven", time.Time{}, func(c *state.Config) { c.Status.Unproven = true }, proven},
		{"the first look", time.Time{}, nil, later},
		{"the second look", now.Add(-2 * time.Hour), nil, later},
	} {
		c, err := state.LoadConfig(h.Machine.Host.Paths.Config())
		must(t, err)
		if tc.spoils != nil {
			tc.spoils(&c)
		}
		run := &tick{i: h.Installer, memory: state.Ticks{Tables: tc.seen}}
		run.recordTables(t.Context(), c, survey.Agent{})
		c, err = state.LoadConfig(h.Machine.Host.Paths.Config())
		if err != nil || c.Status.ActiveSchema != tc.want {
			t.Errorf("%s: recorded %q, %v; want %q", tc.name, c.Status.ActiveSchema, err, tc.want)
		}
		if looked := run.memory.Tables.Equal(now); looked != (tc.spoils == nil && now.Sub(tc.seen) >= time.Hour) {
			t.Errorf("%s: looked: %v", tc.name, looked)
		}
	}
}

func TestARunRecordsTheTablesOfAHealthyAgent(t *testing.T) {
	h := newWellHost(t)
	change := h.changesTables(t)
	h.config.Status.ActiveSchema = change("CREATE TABLE earlier (n INTEGER)")
	h.state(t) // connects it to its agent
	want := change("CREATE TABLE later (n INTEGER)")
	(&tick{i: h.Installer}).observe(t.Context())
	if c, err := state.LoadConfig(h.Machine.Host.Paths.Config()); err != nil || c.Status.ActiveSchema != want {
		t.Errorf("recorded %q, %v; want %q", c.Status.ActiveSchema, err, want)
	}
}
