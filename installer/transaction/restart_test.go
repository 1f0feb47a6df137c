package transaction

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// A person's restart starts the linked version. It is refused while a program runs that may have changed the database to one
// that the linked version cannot read.
func TestARestartDoesNotStartAnOlderVersionOnTheDatabaseOfANewerOne(t *testing.T) {
	tree := func(m *model, r version.Release) versions.Tree {
		t.Helper()
		found, ok, err := m.Host.Store.Lookup(r)
		if err != nil || !ok {
			t.Fatalf("version %s: %v", r.Short(), err)
		}
		return found
	}
	for name, tc := range map[string]struct {
		host func() *model
		says string // empty: it is restarted
	}{
		"a newer version": {func() *model {
			m := upgrade(t, twoHolds)
			must(t, m.Host.Repair(tree(m, m.to))) // by another tool
			must(t, m.restartUnit())
			must(t, m.Host.Repair(tree(m, m.from))) // by a snapshot
			return m
		}, "the agent runs version 1.1.0,"},
		"a program that nobody knows": {func() *model {
			m, back := byHand(t, 2)
			must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, "teleport")))
			must(t, m.Host.Repair(back))
			return m
		}, "/teleport, which is not a kept version,"},
		"the linked version": {func() *model { return upgrade(t, twoHolds) }, ""},
		"an older version": {func() *model {
			m := upgrade(t, twoHolds)
			must(t, m.Host.Repair(tree(m, m.to)))
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			c.Spec.ActiveVersion = "1.1.0"
			must(t, c.Save(m.Host.Paths.Config()))
			return m
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.host()
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			before := m.main
			err = m.RestartActive(t.Context(), c)
			if tc.says == "" {
				if err != nil || m.main == before || m.main == nil || m.main.version != c.Spec.ActiveVersion {
					t.Errorf("%v; the agent is %+v", err, m.main)
				}
				return
			}
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), tc.says) || m.main != before {
				t.Errorf("it ends with %v; the agent is %+v", err, m.main)
			}
		})
	}
}
