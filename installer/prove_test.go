package installer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/installer/state"
)

// A version that was switched to while its agent was stopped changes the tables once it is started: the tables that count are those
// that it is proven with.
func TestTheSchemaIsNotedWhenAVersionIsProven(t *testing.T) {
	h := newWellHost(t)
	path, err := h.Machine.Host.Database()
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	change := func(sql string) string {
		db, err := sqlite3.Open(path)
		must(t, err)
		must(t, db.Exec(sql))
		must(t, db.Close())
		schema, err := h.Machine.Schema(t.Context())
		must(t, err)
		return schema
	}
	h.config.Status.Unproven, h.config.Status.ActiveSchema = true, change("CREATE TABLE earlier (n INTEGER)")
	must(t, h.config.Save(h.Machine.Host.Paths.Config()))
	want := change("CREATE TABLE later (n INTEGER)")
	(&tick{i: h.Installer}).prove(t.Context(), h.config)
	c, err := state.LoadConfig(h.Machine.Host.Paths.Config())
	if err != nil || c.Status.Unproven || c.Status.ActiveSchema != want {
		t.Errorf("noted: %q, unproven: %v, %v; want %q", c.Status.ActiveSchema, c.Status.Unproven, err, want)
	}
}
