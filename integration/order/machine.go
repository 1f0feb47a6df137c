package order

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/integration/trace"
)

// machine is the real thing: folders that the built updater works on. There is no
// systemd, so that the updater does all but the restart of the agent.
type machine struct {
	dir     string
	updater string
	*mirror
}

func newMachine(dir, updater, agentBefore string) (*machine, error) {
	h := &machine{dir: dir, updater: updater}
	for _, d := range []string{h.data(), h.links(), h.units(), h.scratch()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if agentBefore != "" {
		for name, text := range filesBefore(agentBefore) {
			if err := os.WriteFile(filepath.Join(h.links(), name), []byte(text), 0o755); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(h.unit(), []byte(unitOf(agentBefore)), 0o644); err != nil {
			return nil, err
		}
	}
	h.mirror = newMirror()
	return h, nil
}

// filesBefore are the programs of an agent that somebody put there without the
// updater, and one that the updater has nothing to do with.
func filesBefore(v string) map[string]string {
	b := Build{Release: Release{Version: v}, Runs: true}
	return map[string]string{"teleport": b.text("teleport"), "tsh": b.text("tsh"), "other": "somebody's\n"}
}

func (h *machine) data() string  { return filepath.Join(h.dir, "data") }
func (h *machine) links() string { return filepath.Join(h.dir, "bin") }
func (h *machine) units() string { return filepath.Join(h.dir, "units") }

// programs is where versions have their programs on a host of a test that asks for it.
func (h *machine) programs() string    { return filepath.Join(h.dir, "programs") }
func (h *machine) scratch() string     { return filepath.Join(h.dir, "scratch") }
func (h *machine) versions() string    { return filepath.Join(h.data(), "versions") }
func (h *machine) unit() string        { return filepath.Join(h.units(), "teleport.service") }
func (h *machine) config() string      { return filepath.Join(h.versions(), "updates.yaml") }
func (h *machine) journal() string     { return filepath.Join(h.versions(), "journal.json") }
func (h *machine) agentConfig() string { return filepath.Join(h.dir, "teleport.yaml") }
func (h *machine) database() string    { return filepath.Join(h.data(), "proc", "sqlite.db") }

// argv is a command line of the updater for this host.
func (h *machine) argv(args ...string) []string {
	argv := []string{h.updater, "--data-dir", h.data(), "--link-dir", h.links(), "--unit-dir", h.units(),
		"--agent-config", h.agentConfig()}
	argv = append(argv, args[0])
	if args[0] == "enable" {
		argv = append(argv, "--proxy", h.URL, "--template", h.URL+template)
	}
	return append(argv, args[1:]...)
}

func (h *machine) env(scheduled bool) []string {
	env := []string{"PATH=/usr/bin:/bin"}
	if scheduled {
		env = append(env, "TELEPORT_UPDATE_SCHEDULED=1")
	}
	return env
}

// result is how a run of the updater ended.
type result struct {
	code   int
	stdout string
	stderr string
}

// run lets the updater run to its end.
//
// All runs go through the tracer: its threads take the end of any child of
// theirs for an event of their own, and a thread of this program may have started
// others before.
func (h *machine) run(ctx context.Context, args ...string) (result, error) {
	t, err := trace.Run(ctx, trace.Command{Argv: h.argv(args...), Env: h.env(false)}, func(trace.Call) trace.Action { return trace.GoOn() })
	return result{code: t.ExitCode, stdout: string(t.Stdout), stderr: string(t.Stderr)}, err
}

// agent runs a version for a while, as it treats its database: it migrates the schema to its own and adds rows.
func (h *machine) agent(schema int) (err error) {
	if err := os.MkdirAll(filepath.Dir(h.database()), 0o700); err != nil {
		return err
	}
	db, err := sqlite3.Open(h.database())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	found, err := number(db, "PRAGMA user_version")
	if err != nil {
		return err
	}
	script := "PRAGMA journal_mode=delete; BEGIN;"
	for n := found + 1; n <= schema; n++ {
		if n == 1 {
			script += "CREATE TABLE rows (n INTEGER PRIMARY KEY);"
		} else {
			script += fmt.Sprintf("CREATE TABLE schema_%d (x); ALTER TABLE rows ADD COLUMN c_%d;", n, n)
		}
	}
	script += "INSERT INTO rows DEFAULT VALUES; INSERT INTO rows DEFAULT VALUES; INSERT INTO rows DEFAULT VALUES;"
	script += fmt.Sprintf("PRAGMA user_version=%d; COMMIT;", schema)
	return db.Exec(script)
}

func number(db *sqlite3.Conn, query string) (int, error) {
	stmt, _, err := db.Prepare(query)
	if err != nil {
		return 0, err
	}
	defer stmt.Close()
	n := 0
	if stmt.Step() {
		n = stmt.ColumnInt(0)
	}
	return n, stmt.Err()
}
