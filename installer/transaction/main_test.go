package transaction

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/procfs"
	"teleport-update/versions"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testMachine is one without systemd, in folders of its own.
func testMachine(t *testing.T) *Machine {
	t.Helper()
	root := t.TempDir()
	paths := state.Paths{
		DataDir:     filepath.Join(root, "data"),
		LinkDir:     filepath.Join(root, "bin"),
		UnitDir:     filepath.Join(root, "units"),
		AgentConfig: filepath.Join(root, "teleport.yaml"),
	}
	log := slog.New(slog.DiscardHandler)
	h := &host.Host{Paths: paths, Store: versions.NewStore(paths.Versions()), Log: log, Program: "/proc/self/exe"}
	return &Machine{
		Host:    h,
		Connect: func(context.Context) (Agent, error) { return absent{}, nil },
		Now:     time.Now,
		BootID:  func() string { return "boot 1" },
		Refetch: func(context.Context, state.Config, state.Tree) error { return errors.New("no mirror answers") },

		AskRescuer: h.Rescuer,
		OpenByName: procfs.Host().OpenByName,
	}
}

// open is a transaction of the machine's with a record in a phase.
func (m *Machine) open(t *testing.T, p state.Phase, change func(*state.Journal)) *transaction {
	t.Helper()
	j := &state.Journal{ID: "x", BootID: "boot 1", Started: noon}
	j.Phase, j.To.Version = p, "2.0.0"
	if change != nil {
		change(j)
	}
	must(t, os.MkdirAll(m.Host.Paths.Versions(), 0o755))
	must(t, j.Save(m.Host.Paths.Journal()))
	return &transaction{m: m, agent: absent{}, j: newOpenJournal(m.Host.Paths.Journal(), j)}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const wholeConfig = `version: v1
kind: agent_versions
spec: {proxy: mytenant.teleport.sh, group: staging, enabled: true, active_version: 15.1.1}
status: {active_edition: enterprise, previous_version: 15.1.0, previous_edition: enterprise}
`

func testNow() time.Time { return noon }
