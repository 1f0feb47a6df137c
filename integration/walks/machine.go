package walks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/integration/trace"
)

// machine is the real thing: folders that the built updater works on. There is no
// systemd, so that the updater does all but the restart of the agent.
type machine struct {
	dir     string
	updater string
	*mirror
	row int // the last one that an agent wrote
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
	killed string // the call at which it was
	stdout string
	stderr string
}

// run lets the updater run to its end, or kills it at the n-th call that changes
// something: before the call is made where at is odd, after it where at is even.
// 0, or more calls than it makes, let it end.
//
// All runs go through the tracer: its threads take the end of any child of
// theirs for an event of their own, and a thread of this program may have started
// others before.
func (h *machine) run(ctx context.Context, scheduled bool, at int, args ...string) (result, error) {
	killed := ""
	t, err := trace.Run(ctx, trace.Command{Argv: h.argv(args...), Env: h.env(scheduled), At: (at + 1) / 2}, func(c trace.Call) trace.Action {
		if at == 0 || c.Exit != (at%2 == 0) {
			return trace.GoOn()
		}
		killed = strings.ReplaceAll(c.String(), h.dir, "")
		return trace.Kill()
	})
	return result{code: t.ExitCode, killed: killed, stdout: string(t.Stdout), stderr: string(t.Stderr)}, err
}

// phase is how far an open transaction came; empty if none is open.
func (h *machine) phase() (string, error) {
	data, err := os.ReadFile(h.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var j struct{ Phase string }
	err = json.Unmarshal(data, &j)
	return j.Phase, err
}

// agent runs a version for a while, as it treats its database: it migrates the
// schema to its own and adds rows. It tells whether it could start.
func (h *machine) agent(a Agent, schema int) (started bool, rows []int, err error) {
	if err := os.MkdirAll(filepath.Dir(h.database()), 0o700); err != nil {
		return false, nil, err
	}
	db, err := sqlite3.Open(h.database())
	if err != nil {
		return false, nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	found, err := number(db, "PRAGMA user_version")
	if err != nil || found > schema {
		return false, nil, err
	}
	mode := "delete"
	if a.WAL {
		mode = "wal"
	}
	script := "PRAGMA journal_mode=" + mode + "; BEGIN;"
	for n := found + 1; n <= schema; n++ {
		if n == 1 {
			script += "CREATE TABLE rows (n INTEGER PRIMARY KEY);"
		} else {
			script += fmt.Sprintf("CREATE TABLE schema_%d (x); ALTER TABLE rows ADD COLUMN c_%d;", n, n)
		}
	}
	for range a.Rows {
		h.row++
		rows = append(rows, h.row)
		script += fmt.Sprintf("INSERT INTO rows (n) VALUES (%d);", h.row)
	}
	script += fmt.Sprintf("PRAGMA user_version=%d; COMMIT;", schema)
	if _, err := db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, a.Dies); err != nil {
		return false, nil, err
	}
	return true, rows, db.Exec(script)
}

func number(db *sqlite3.Conn, query string) (int, error) {
	all, err := numbers(db, query)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[0], nil
}

func numbers(db *sqlite3.Conn, query string) (all []int, err error) {
	stmt, _, err := db.Prepare(query)
	if err != nil {
		return nil, err
	}
	defer stmt.Close()
	for stmt.Step() {
		all = append(all, stmt.ColumnInt(0))
	}
	return all, stmt.Err()
}

// read returns what a database holds; nil if there is none. It works on a copy,
// for reading may change what lies beside it.
func (h *machine) read(path string) (*Database, error) {
	copied := filepath.Join(h.scratch(), "copy.db")
	for _, suffix := range []string{"", "-wal", "-journal", "-shm"} {
		os.Remove(copied + suffix)
		data, err := os.ReadFile(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist) && suffix == "":
			return nil, nil
		case errors.Is(err, fs.ErrNotExist), suffix == "-shm":
			continue
		case err != nil:
			return nil, err
		}
		if err := os.WriteFile(copied+suffix, data, 0o600); err != nil {
			return nil, err
		}
	}
	db, err := sqlite3.Open(copied)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	d := &Database{}
	if d.Schema, err = number(db, "PRAGMA user_version"); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.Rows, err = numbers(db, "SELECT n FROM rows ORDER BY n"); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// folder is where a release is on disk, by its markers; empty if it is nowhere.
func (h *machine) folder(r Release) string {
	for _, name := range []string{r.Version, r.Version + "_" + string(r.Edition)} {
		dir := filepath.Join(h.versions(), name)
		if word, err := os.ReadFile(filepath.Join(dir, "edition")); err == nil && strings.TrimSpace(string(word)) == string(r.Edition) {
			return dir
		}
	}
	return ""
}

// damage spoils the folder of a version.
func (h *machine) damage(r Release, t Tree) error {
	dir := h.folder(r)
	if t.Damage == Unmarked {
		return os.Remove(filepath.Join(dir, "sha256"))
	}
	path := filepath.Join(dir, "bin", damagedProgram)
	return os.WriteFile(path, []byte(t.text(damagedProgram)), 0o755)
}

// spoil damages a backup.
func (h *machine) spoil(r Release, how string) error {
	dir := filepath.Join(h.folder(r), "backup")
	if how == "unfinished" {
		return os.Remove(filepath.Join(dir, "backup.yaml"))
	}
	path := filepath.Join(dir, "sqlite.db")
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()-512)
}

var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// pass lets time go by: every moment that the updater wrote down moves into the
// past.
func (h *machine) pass(d time.Duration) error {
	files := []string{h.config(), filepath.Join(h.versions(), "find.json"), filepath.Join(h.versions(), "history.json")}
	backups, err := filepath.Glob(filepath.Join(h.versions(), "*", "backup", "backup.yaml"))
	if err != nil {
		return err
	}
	for _, path := range slices.Concat(files, backups) {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		data = moment.ReplaceAllFunc(data, func(text []byte) []byte {
			at, err := time.Parse(time.RFC3339Nano, string(text))
			if err != nil {
				return text
			}
			return []byte(at.Add(-d).Format(time.RFC3339Nano))
		})
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
