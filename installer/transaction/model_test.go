package transaction

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
	"teleport-update/health/settings"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// model is a host with an agent, the systemd that runs it, and its database, which
// is a real one. It is no list of answers: what a call brings depends on what was
// done before, by the updater and by others. What systemd does here was seen of
// systemd 252.
//
// Files are real, and changed by the real code. Processes are not.
type model struct {
	*Machine
	t *testing.T

	boots      int
	soft       bool     // its boots are soft reboots
	down       bool     // the host is shutting down
	booted     bool     // systemd runs
	refusesRun error    // why it runs no transient unit
	refusesTry string   // a part of the text of each canary that does not end well
	tried      []string // texts of the canaries
	creates    bool     // an agent that finds no database makes one
	ordered    bool     // the recovery at boot runs: whoever starts the agent waits for it
	reachable  bool
	offline    bool
	enabled    bool   // the agent is started at boot
	masked     bool   // and by nobody
	started    bool   // it was, since the boot
	unit       string // as systemd has read it; empty: not found
	main       *process
	draining   []*process // relieved by reloads, each the parent of the next, the last of main
	failed     bool       // the agent died, or could not be started
	crashes    int        // starts in a row that failed
	cutShort   bool       // it was killed by a stop, with no time to end
	ending     bool       // somebody's stop of it goes on while it drains its sessions
	badStops   bool       // a command of ExecStopPost= fails after each stop
	awaited    bool       // it died, was learned of from the PID file, and systemd does not know
	invocation int
	pids       int
	met        int // the call at which an outcome comes

	versions map[string]behaviour
	db       string
	seen     database // as it was left by the agent, or found
	stamp    string   // of its file then

	before, after func(call string) error // of each call: others act here, and calls fail
	calls         []string
	timers        func(verb, name string) // told of each start and stop of one
	noTimers      bool                    // none can be started

	ties     systemd.Ties
	command  []string        // of its unit, as systemd tells it
	crashed  string          // a unit that failed
	user     string          // User=
	frozenBy string          // a unit
	drains   time.Duration   // TimeoutStopSec=
	blockers []string        // units whose jobs keep those of the agent waiting
	others   map[string]bool // other units: whether they are active
	noUnits  bool            // systemd does not tell of them
	heldBack bool            // a start of the version before is queued, and systemd does not begin it

	rows     map[int]row // written by the agent
	wrong    []string    // what no updater may do
	restores int         // by an undoing, since the version that was switched to ran last
	from, to version.Release
	since    time.Time // when the agent was started; zero if no test asks
}

// row is one that the agent wrote; keep, that it must not be lost to an undoing.
type row struct {
	by   string
	keep bool
}

// behaviour is what a version does when it is started.
type behaviour struct {
	schema int // it migrates an older database, and refuses a newer one
	fate   fate
}

type fate string

const (
	holds      fate = "holds"
	diesFirst  fate = "dies before it touches the database"
	dies       fate = "dies at once"
	diesLate   fate = "dies in its watch"
	neverReady fate = "serves, and is never ready"
)

type process struct {
	pid     int
	parent  int
	learned bool // systemd has it from the PID file
	foreign bool // and takes it for no child of its own, since its parent lived then
	version string
	dir     string // of what it executes
}

type database struct {
	schema int
	rows   []int
	gone   bool
}

const readyURL = "http://127.0.0.1:1/readyz"

var rescuerOfToday = fmt.Sprintf("#!/bin/sh\necho '{\"schema\": %d}'\n", state.Schema)

// askRescuer does not execute what it knows: a process that is started holds the databases
// of all tests beside it open for a moment.
func (m *model) askRescuer(ctx context.Context) (program string, schema int, err error) {
	if program, err = m.Host.OwnUnits().Rescuer(); err == nil {
		if text, _ := os.ReadFile(program); string(text) == rescuerOfToday {
			return program, state.Schema, nil
		}
	}
	return m.Host.Rescuer(ctx)
}

// openByName looks at the process that has the database open for this model's, and leaves
// out what it has open for the models beside this one.
func (m *model) openByName(pids []int, prefix string) string {
	if m.main == nil || !slices.Contains(pids, m.main.pid) {
		return ""
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", others.pid))
	for _, file := range files {
		path, _ := os.Readlink(file)
		if strings.HasPrefix(path, m.Host.Paths.DataDir) && strings.HasPrefix(filepath.Base(path), prefix) {
			return path
		}
	}
	return ""
}

// newModel is a host that runs a version which was enabled before.
func newModel(t *testing.T, from, to string, all map[string]behaviour) *model {
	t.Helper()
	m := newHost(t, from, to, all)
	m.enable()
	m.readUnits()
	_, err := m.Host.InstallUnits(t.Context(), m, host.Installing{EnableTimer: true})
	must(t, err)
	m.launch()
	m.calls = nil
	return m
}

// newHost is one on which nothing was enabled yet, with versions in its store.
func newHost(t *testing.T, from, to string, all map[string]behaviour) *model {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	paths := state.Paths{
		DataDir:     filepath.Join(root, "data"),
		LinkDir:     filepath.Join(root, "bin"),
		UnitDir:     filepath.Join(root, "units"),
		AgentConfig: filepath.Join(root, "teleport.yaml"),
		RunDir:      filepath.Join(root, "run"),
	}
	log := slog.New(slog.DiscardHandler)
	program := filepath.Join(root, "updater")
	m := &model{
		t: t, versions: all, db: filepath.Join(paths.DataDir, "proc", "sqlite.db"), rows: map[int]row{},
		booted: true, reachable: true, enabled: true, boots: 1,
		from: version.Release{Version: from, Edition: version.OSS}, to: version.Release{Version: to, Edition: version.OSS},
	}
	m.Machine = &Machine{
		Host:    &host.Host{Paths: paths, Store: versions.NewStore(paths.Versions()), Log: log, Program: program},
		Connect: m.connect,
		Now:     testNow,
		BootID:  m.bootID,
		Refetch: m.refetch,
	}
	m.Machine.AskRescuer = m.askRescuer
	m.Machine.OpenByName = m.openByName
	writeFile(t, program, rescuerOfToday)
	must(t, os.Chmod(program, 0o755))
	must(t, os.MkdirAll(filepath.Dir(m.db), 0o700))
	m.exec("CREATE TABLE rows (n INTEGER)")
	for v := range all {
		m.release(v)
	}
	t.Cleanup(m.ends)
	return m
}

// enable makes the version to begin with the active one, as the first enable did.
func (m *model) enable() {
	m.t.Helper()
	tree, ok, err := m.Host.Store.Lookup(m.from)
	must(m.t, err)
	if !ok {
		m.t.Fatal("the version to begin with is not in the store")
	}
	links, err := m.Host.PlanLinks(tree)
	must(m.t, err)
	must(m.t, m.Host.Place(tree, links))
	must(m.t, m.Host.WriteOriginals(host.Originals{Links: links}))
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: "proxy", Enabled: true, ActiveVersion: m.from.Version, Health: state.HealthSpec{Settings: settings.Settings{ReadyURL: readyURL}}}
	c.Status.ActiveEdition = version.OSS
	must(m.t, c.Save(m.Host.Paths.Config()))
}

// release puts a version into the store.
func (m *model) release(v string) {
	dir := filepath.Join(m.Host.Paths.Versions(), v)
	files := map[string]string{
		"edition": "oss\n", "bin/teleport": v, "bin/tsh": v, "bin/only-" + v: v, "etc/systemd/teleport.service": "[Service]\n# " + v + "\n",
	}
	manifest := ""
	for name, content := range files {
		manifest += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), name)
		mode := map[bool]os.FileMode{true: 0o755, false: 0o644}[strings.HasPrefix(name, "bin/")]
		writeFile(m.t, filepath.Join(dir, name), content)
		must(m.t, os.Chmod(filepath.Join(dir, name), mode))
	}
	writeFile(m.t, filepath.Join(dir, "sha256"), strings.Repeat("ab", 32)+"\n")
	writeFile(m.t, filepath.Join(dir, "manifest"), manifest) // last, as a version is published
}

// refetch is what the cluster's mirror gives, as long as there is one.
func (m *model) refetch(_ context.Context, _ state.Config, t state.Tree) error {
	if m.offline {
		return errors.New("no mirror answers")
	}
	m.release(t.Version)
	return nil
}

// left gives a version the database that it had when it was left.
func (m *model) left(v string) {
	m.t.Helper()
	scratch := filepath.Join(m.t.TempDir(), "sqlite.db")
	c, err := sqlite3.Open(scratch)
	must(m.t, err)
	must(m.t, c.Exec(fmt.Sprintf("CREATE TABLE rows (n INTEGER); INSERT INTO rows VALUES (-1); PRAGMA user_version=%d", m.versions[v].schema)))
	for n := range m.versions[v].schema {
		must(m.t, c.Exec(fmt.Sprintf("CREATE TABLE s%d (n INTEGER)", n+1)))
	}
	must(m.t, c.Close())
	db, err := backup.Open(scratch)
	must(m.t, err)
	defer db.Close()
	_, err = db.Take(m.t.Context(), backup.TakeRequest{Dir: filepath.Join(m.Host.Paths.Versions(), v, "backup"),
		Meta: backup.Meta{Proxy: "proxy", Version: v, Edition: version.OSS, Created: m.Now()}})
	must(m.t, err)
}

// request is the transaction from one to the other. What nothing needed any more after
// the last one was removed, and is fetched again.
func (m *model) request(kind Kind) Request {
	if _, ok, err := m.Host.Store.Lookup(m.to); err == nil && !ok {
		m.release(m.to.Version)
	}
	tree, ok, err := m.Host.Store.Lookup(m.to)
	if err != nil || !ok {
		m.t.Fatalf("the version to switch to is not in the store: %v", err)
	}
	return Request{Kind: kind, From: m.from, To: TreeOf(tree)}
}

// killed is thrown where the updater is killed.
type killed struct{}

// runs does something that the updater does, up to where it is killed.
func (m *model) runs(do func() error) (err error, wasKilled bool) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case killed:
			wasKilled = true
		default:
			panic(r)
		}
		m.look()
	}()
	return do(), false
}

func (m *model) tick() (error, bool) {
	return m.runs(func() error {
		_, unlock, err := m.Open(m.t.Context())
		if err == nil {
			unlock()
		}
		return err
	})
}

func (m *model) bootID() string {
	if m.soft {
		return "boot 1"
	}
	return fmt.Sprint("boot ", m.boots)
}

// reboot is a boot with its recovery.
func (m *model) reboot() (err error, wasKilled bool) {
	m.ends()
	m.failed, m.crashes, m.down, m.started, m.cutShort, m.awaited = false, 0, false, false, false, false
	m.boots++
	m.read()
	m.ordered = true
	err, wasKilled = m.runs(func() error { return m.Recover(m.t.Context(), true) })
	m.ordered = false
	if m.enabled && !m.masked && m.unit != "" {
		m.launch()
	}
	return err, wasKilled
}

// What systemd and the agent do.

// sound says what is wrong with the host when nothing is open any more, or when it
// is left alone: an agent runs, which is the version that is linked, with its unit,
// on a database that is its own.
func (m *model) sound() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	v, _ := m.program()
	b := m.versions[v]
	switch {
	case m.main == nil:
		add("no agent runs; %s is linked, the database has schema %d", v, m.seen.schema)
	case m.main.version != v:
		add("version %s runs, and %s is linked", m.main.version, v)
	}
	if m.seen.schema != b.schema {
		add("the database has schema %d, and version %s works with %d", m.seen.schema, v, b.schema)
	}
	if text, _ := os.ReadFile(m.Host.Paths.Unit()); !strings.Contains(string(text), "# "+v+"\n") {
		add("version %s is linked, and the unit is %q", v, text)
	}
	for _, text := range m.wrong {
		add("%s", text)
	}
	return errors.Join(errs...)
}

// closed says what is wrong when all is over: sound, no journal, and updates.yaml
// names what runs.
func (m *model) closed() error {
	err := m.sound()
	if host.Exists(m.Host.Paths.Journal()) {
		text, _ := os.ReadFile(m.Host.Paths.Journal())
		err = errors.Join(err, fmt.Errorf("the journal is open:\n%s", text))
	}
	// The run that sets a journal aside which it cannot read leaves the rest to the next.
	if kept, _ := filepath.Glob(m.Host.Paths.Journal() + ".unreadable-*"); kept == nil && host.Exists(m.Host.Paths.Rollback()) {
		err = errors.Join(err, errors.New("the backup of a transaction that is over has its second name yet"))
	}
	if v, _ := m.program(); !m.committedOn(version.Release{Version: v, Edition: version.OSS}) {
		err = errors.Join(err, fmt.Errorf("version %s is linked, and updates.yaml says otherwise", v))
	}
	exchanged := m.committedOn(m.to) && version.Compare(m.to.Version, m.from.Version) < 0
	for n, r := range m.rows {
		// A downgrade gives its version the database that it had.
		if r.keep && !slices.Contains(m.seen.rows, n) && (!exchanged || r.by == m.to.Version) {
			err = errors.Join(err, fmt.Errorf("row %d, which version %s wrote, is lost", n, r.by))
		}
	}
	return err
}
