package transaction

import (
	"os"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// What the agent reports to its cluster after a transaction that failed is what it reported
// before: whether it reports, and which version is active.
func TestATransactionThatIsUndoneLeavesTheReportToTheClusterAsItWas(t *testing.T) {
	for name, tc := range map[string]struct{ before, asked bool }{
		"it reported, and goes on":       {true, true},
		"it reported, and was to end":    {true, false},
		"it did not report, and was to":  {false, true},
		"it did not report, and goes on": {false, false},
	} {
		for _, cut := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				m := upgrade(t, two(diesLate))
				c, err := m.Host.Paths.LoadConfig()
				must(t, err)
				c.Spec.NoClusterReport = !tc.before
				must(t, c.Save(m.Host.Paths.Config()))
				_, err = m.Host.ReportToCluster(tc.before)
				must(t, err)
				must(t, m.Host.WriteClusterConfig(c, false))
				before := m.reports()
				if tc.before != strings.Contains(before, "version: 1.0.0") {
					t.Fatalf("before, the agent reads %q: this test shows nothing", before)
				}
				r := m.request(Enable)
				r.Spec = new(c.Spec)
				r.Spec.NoClusterReport = !tc.asked
				during := ""
				m.at("watch", func() error {
					m.before, during = nil, m.reports()
					if cut {
						panic(killed{})
					}
					return nil
				})
				m.runs(func() error { return m.transact(t.Context(), r) })
				if tc.asked != strings.Contains(during, "version: 1.1.0") {
					t.Errorf("in the watch, the agent reads %q", during)
				}
				if cut {
					m.edit(func(j *state.Journal) { j.Watch.Again = true })
					if err, _ := m.reboot(); err != nil {
						t.Error(err)
					}
				}
				if after := m.reports(); after != before {
					t.Errorf("before, the agent read %q, and after it %q", before, after)
				}
			})
		}
	}
}

// Where updates.yaml was lost, the drop-in of the time before is there at an enable that is the
// first, by all that can be told.
func TestAFirstEnableThatIsUndoneLeavesTheReportAsItWas(t *testing.T) {
	for _, there := range []bool{false, true} {
		m := firstEnable(t, diesLate)
		if there {
			_, err := m.Host.InstallUnits(t.Context(), m, host.Installing{EnableTimer: true})
			must(t, err)
			_, err = m.Host.ReportToCluster(true)
			must(t, err)
		}
		m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) })
		if err := m.firstEnded(); err != nil || m.committedOn(m.to) {
			t.Fatalf("it is not undone: %v", err)
		}
		if host.Exists(m.Host.OwnUnits().UpdaterInfoFile()) != there {
			t.Errorf("the agent reported: %t, and now the opposite", there)
		}
	}
}

// reports are the files by which the agent reports to its cluster.
func (m *model) reports() string {
	dropIn, _ := os.ReadFile(m.Host.OwnUnits().UpdaterInfoFile())
	config, _ := os.ReadFile(m.Host.Paths.ClusterConfig())
	return string(dropIn) + string(config)
}
