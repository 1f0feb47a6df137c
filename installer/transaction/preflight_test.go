package transaction

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

// A check is asked once for each name, so two checks need two names.
func TestChecksHaveNamesOfTheirOwnAndKeepTheReason(t *testing.T) {
	var names []string
	for _, check := range preflightChecks() {
		if slices.Contains(names, check.name) {
			t.Errorf("two checks are called %q: the second is never asked", check.name)
		}
		names = append(names, check.name)
		if said := check.words(&Preflight{}, errors.New("why")).Error(); !strings.Contains(said, "why") || strings.Contains(said, "%!") {
			t.Errorf("%s: %s", check.name, said)
		}
	}
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
