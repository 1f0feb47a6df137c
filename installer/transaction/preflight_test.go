package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/internal/golden"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// stages are who asks, and when.
var stages = []struct {
	stage Stage
	name  string
}{
	{OwnUnits, "transaction, `--dry-run`"}, {Deep, "`--dry-run`"}, {Now, "transaction, `--dry-run`"},
	{Change, "transaction, `--dry-run`, before a download"}, {0, "transaction, `--dry-run`, before a download, first of all in `enable`"},
}

// TestArchitectureShowsThePreflight holds the part of docs/development/architecture.md about what a
// transaction needs to the list of checks.
func TestArchitectureShowsThePreflight(t *testing.T) {
	var b strings.Builder
	b.WriteString("| check | asked by | only if |\n| --- | --- | --- |\n")
	conditions := map[Stage]string{onDisk: "the version is on disk", wanted: "the agent runs, or should", running: "the agent runs",
		stopped: "the agent is down", replaces: "another updater is replaced", exchanges: "the database is backed up or restored",
		stops: "the agent is stopped for the database"}
	var names []string
	for _, check := range preflightChecks() {
		var only []string
		for _, bit := range []Stage{onDisk, wanted, running, stopped, replaces, exchanges, stops} {
			if check.needs&bit != 0 {
				only = append(only, conditions[bit])
			}
		}
		i := slices.IndexFunc(stages, func(s struct {
			stage Stage
			name  string
		}) bool {
			return check.needs&s.stage != 0 || s.stage == 0
		})
		by := stages[i].name
		if check.standing {
			by += ", `status`, `verify`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", check.name, by, strings.Join(only, ", "))
		if slices.Contains(names, check.name) {
			t.Errorf("two checks are called %q: the second is never asked", check.name)
		}
		names = append(names, check.name)
		if said := check.words(&Preflight{}, errors.New("why")).Error(); !strings.Contains(said, "why") || strings.Contains(said, "%!") {
			t.Errorf("%s: %s", check.name, said)
		}
	}
	b.WriteString("\n")
	golden.Part(t, filepath.Join("..", "..", "docs", "development", "architecture.md"), "installer/transaction/preflightchecks.go", "\n"+b.String())
}

// One Preflight speaks of one host: what was planned for the database is not planned again.
func TestAPreflightPlansTheDatabaseOnce(t *testing.T) {
	h := newDatabaseHost(t)
	req := Request{Kind: Update, From: h.config.Active(), To: TreeOf(versions.Tree{Release: version.Release{Version: "1.2.0", Edition: version.OSS}})}
	p, err := h.Preflight(t.Context())
	must(t, err)
	defer p.Close()
	must(t, p.Ask(t.Context(), h.config, req, Change))
	planned := p.Database
	must(t, os.Rename(h.path(), h.path()+".gone"))
	must(t, p.Ask(t.Context(), h.config, req, Change))
	if p.Database != planned || planned.Absent || len(p.asked) < 5 {
		t.Errorf("%+v, and then %+v; asked: %v", planned, p.Database, p.asked)
	}
}
