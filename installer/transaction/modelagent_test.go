package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// The agent of the model: its processes, and the database that they have open.

// program is what the agent's unit starts: a version and the folder that it is in.
func (m *model) program() (v, dir string) {
	path, err := filepath.EvalSymlinks(filepath.Join(m.Host.Paths.LinkDir, "teleport"))
	if err != nil {
		return "", ""
	}
	text, _ := os.ReadFile(path)
	return string(text), filepath.Dir(filepath.Dir(path))
}

func (m *model) runsNow(p *process) {
	m.main = p
	others.open(m.db)
	m.write()
}

// ends is the end of the agent's processes: systemd lets none outlive the main one.
func (m *model) ends() {
	if m.main != nil {
		others.close(m.db)
		m.main, m.draining = nil, nil
	}
}

// spawn is nil for a process that dies at once.
func (m *model) spawn() *process {
	m.look()
	v, dir := m.program()
	b, ok := m.versions[v]
	m.pids++
	if v == m.to.Version {
		m.restores = 0
	}
	if ok && m.creates && m.seen.gone && b.fate != diesFirst {
		m.exec(fmt.Sprintf("CREATE TABLE rows (n INTEGER); PRAGMA user_version=%d", b.schema))
		for n := range b.schema {
			m.exec(fmt.Sprintf("CREATE TABLE s%d (n INTEGER)", n+1))
		}
	}
	switch now := m.seen; {
	case !ok, b.fate == diesFirst, now.gone, now.schema > b.schema, m.configBroken():
		return nil
	case now.schema < b.schema:
		m.exec(fmt.Sprintf("CREATE TABLE s%d (n INTEGER); PRAGMA user_version=%d", b.schema, b.schema))
	}
	if b.fate == dies {
		return nil
	}
	return &process{pid: 100 + m.pids, parent: 1, version: v, dir: dir}
}

// configBroken reports whether no agent can read its configuration when it starts.
func (m *model) configBroken() bool {
	_, err := host.ReadAgentSettings(m.Host.Paths.AgentConfig)
	return err != nil
}

// write is what a running agent does: it adds a row. Those of a version that was put
// back, or is proven, must not be lost.
func (m *model) write() {
	if m.main == nil {
		return
	}
	m.look()
	n := len(m.rows) + 1
	keep := true
	if j, err := state.LoadJournal(m.Host.Paths.Journal()); err == nil && j != nil {
		keep = j.Phase == proven || m.main.version == m.from.Version && (j.Phase == restored || j.Phase == rollingBack && j.Database.Restored)
	}
	m.rows[n] = row{m.main.version, keep}
	m.exec(fmt.Sprintf("INSERT INTO rows VALUES (%d)", n))
}

func (m *model) exec(sql string) {
	m.t.Helper()
	c, err := sqlite3.Open(m.db)
	must(m.t, err)
	must(m.t, c.Exec(sql))
	must(m.t, c.Close())
	m.seen, m.stamp = m.readDatabase(), m.stampOf()
}

// stampOf tells whether the database may have been changed.
func (m *model) stampOf() string {
	info, err := os.Stat(m.db)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime(), info.Size(), info.Sys().(*syscall.Stat_t).Ino)
}

func (m *model) readDatabase() (d database) {
	m.t.Helper()
	if !host.Exists(m.db) {
		return database{gone: true}
	}
	c, err := sqlite3.OpenFlags(m.db, sqlite3.OPEN_READONLY)
	must(m.t, err)
	defer c.Close()
	for sql, add := range map[string]func(n int){
		"PRAGMA user_version":   func(n int) { d.schema = n },
		"SELECT n FROM rows":    func(n int) { d.rows = append(d.rows, n) },
		"PRAGMA quick_check(1)": func(int) {},
	} {
		s, _, err := c.Prepare(sql)
		must(m.t, err)
		for s.Step() {
			add(s.ColumnInt(0))
		}
		must(m.t, s.Close())
	}
	slices.Sort(d.rows)
	return d
}

// look finds out what the updater did to the database since.
func (m *model) look() {
	stamp := m.stampOf()
	if stamp == m.stamp {
		return
	}
	now := m.readDatabase()
	m.stamp = stamp
	if now.schema == m.seen.schema && slices.Equal(now.rows, m.seen.rows) && now.gone == m.seen.gone {
		return
	}
	if m.main != nil {
		m.wrong = append(m.wrong, fmt.Sprintf("the database was changed under version %s, which runs", m.main.version))
	}
	if j, err := state.LoadJournal(m.Host.Paths.Journal()); err == nil && j != nil && j.Phase == rollingBack {
		if m.restores++; m.restores > 1 {
			m.wrong = append(m.wrong, "the database was restored twice, though no other version ran in between")
		}
	}
	m.seen = now
}

// committedOn reports whether a release is the active one.
func (m *model) committedOn(r version.Release) bool {
	c, err := m.Host.Paths.LoadConfig()
	return err == nil && c.Active() == r
}

func (m *model) read() {
	text, _ := os.ReadFile(m.Host.Paths.Unit())
	m.unit = string(text)
}
