package scenes

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"teleport-update/integration/host"
)

const (
	AgentData = "/var/lib/teleport"
	LiveFile  = AgentData + "/proc/sqlite.db"
)

// Content is what a database of the stand-in holds. It gives ids in one row and
// never twice, so all rows up to the last one are there if Rows equals Last.
type Content struct {
	Schema      int64
	JournalMode string `json:"journal_mode"`
	Integrity   string
	Rows, Last  int64
	ByVersion   map[string]int64 `json:"by_version"`
}

// String tells it in one line.
func (c Content) String() string {
	return fmt.Sprintf("schema %d, %d rows up to %d, by version %v, integrity %s", c.Schema, c.Rows, c.Last, c.ByVersion, c.Integrity)
}

// Whole asserts that a database is sound, has a schema, and all of its rows.
func (s *Scene) Whole(what string, c Content, schema int64) {
	s.T.Helper()
	if c.Integrity != "ok" || c.Rows != c.Last || c.Schema != schema {
		s.T.Errorf("%s holds %v; want it sound, with schema %d and without a gap", what, c, schema)
	}
}

// Writes configures the agent: how it keeps its database, how much it writes.
func (s *Scene) Writes(journalMode string, rowsPerSecond int) {
	s.T.Helper()
	s.Write("/etc/teleport.yaml", fmt.Sprintf("teleport:\n  diag_addr: 127.0.0.1:3000\nstand_in:\n  journal_mode: %s\n  rows_per_second: %d\n",
		journalMode, rowsPerSecond))
}

// Live is what the agent's database holds now.
func (s *Scene) Live() Content { return s.LiveIn(AgentData) }

// LiveIn is what the database of an agent with another data folder holds.
func (s *Scene) LiveIn(dataDir string) Content {
	s.T.Helper()
	var c Content
	out := s.Must(LinkDir+"/teleport", "report", "--data-dir", dataDir)
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		s.T.Fatalf("report printed %q: %v", out, err)
	}
	return c
}

// Saved is what the backup of a version holds, as SQLite itself sees it.
func (s *Scene) Saved(v string) Content { return s.Settled(Store + "/" + v + "/backup/sqlite.db") }

// Settled is what a database holds that nobody writes.
func (s *Scene) Settled(path string) Content {
	s.T.Helper()
	var c Content
	out := s.sql(path, `PRAGMA integrity_check(1); PRAGMA user_version; SELECT count(*) FROM rows;
		SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'rows'; SELECT version || '=' || count(*) FROM rows GROUP BY version`)
	lines := strings.Fields(out)
	if len(lines) < 4 {
		s.T.Fatalf("%s: sqlite3 prints %q", path, out)
	}
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }
	c.Integrity, c.Schema, c.Rows, c.Last = lines[0], number(lines[1]), number(lines[2]), number(lines[3])
	c.ByVersion = map[string]int64{}
	for _, line := range lines[4:] {
		v, n, _ := strings.Cut(line, "=")
		c.ByVersion[v] = number(n)
	}
	return c
}

// sql asks SQLite's shell about a database that nobody writes, without leaving
// anything beside it.
func (s *Scene) sql(path, query string) string {
	s.T.Helper()
	return s.Must("sqlite3", "-readonly", "file:"+path+"?immutable=1", query)
}

// SameRows asserts that the live database begins with all rows of a backup, to
// the letter.
func (s *Scene) SameRows(v string, last int64) {
	s.T.Helper()
	query := fmt.Sprintf("SELECT id, version, pid, time FROM rows WHERE id <= %d ORDER BY id", last)
	saved := s.sql(Store+"/"+v+"/backup/sqlite.db", query)
	if live := s.Must("sqlite3", "-readonly", "-cmd", ".timeout 10000", LiveFile, query); live != saved {
		s.T.Errorf("the live database does not begin with the %d rows of the backup of %s", last, v)
	}
}

// LastRow is the last row that the agent says it has committed.
func (s *Scene) LastRow() int64 {
	s.T.Helper()
	var said struct {
		LastRow int64 `json:"last_row"`
		Failed  int64 `json:"failed_writes"`
	}
	host.Wait(s.T, Patience, func() error {
		response, err := s.HTTP().Get("http://127.0.0.1:3000/version")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &said)
	})
	if said.Failed > 0 {
		s.T.Errorf("%d commits of the agent failed", said.Failed)
	}
	return said.LastRow
}

// Grows waits until the agent has committed a row beyond n, and returns the last.
func (s *Scene) Grows(n int64) int64 {
	s.T.Helper()
	var last int64
	host.Wait(s.T, Patience, func() error {
		if last = s.LastRow(); last <= n {
			return fmt.Errorf("the agent's last row is %d; want more than %d", last, n)
		}
		return nil
	})
	return last
}

// SaidLast is the last row that a process of the agent said it had committed,
// when it stopped.
func (s *Scene) SaidLast(pid string) int64 {
	s.T.Helper()
	line := regexp.MustCompile(`msg="Stopped writing\." version=\S+ pid=` + pid + ` last_row=(\d+)`)
	var last int64
	// A last line of a process that is gone may come late.
	host.Wait(s.T, Patience, func() error {
		found := line.FindStringSubmatch(s.Log(""))
		if found == nil {
			return fmt.Errorf("process %s did not say which row was its last", pid)
		}
		_, err := fmt.Sscan(found[1], &last)
		return err
	})
	return last
}

// Updates brings the host to a healthy version.
func (s *Scene) Updates(v string) {
	s.T.Helper()
	s.Wants(v)
	s.Must(Updater, "update")
	s.Serves(v)
}

// DryRunAgrees asserts that the dry run of a command that is refused ends exactly as
// the command does.
func (s *Scene) DryRunAgrees(args ...string) {
	s.T.Helper()
	end := func(args []string) string {
		r := s.Try(args...)
		return fmt.Sprintf("exit code %d: %s", r.Code, r.Stderr[max(0, strings.LastIndex(r.Stderr, "error: ")):])
	}
	if dry, wet := end(append(args, "--dry-run")), end(args); dry != wet {
		s.T.Errorf("%s ends with\n%s; its dry run with\n%s", strings.Join(args, " "), wet, dry)
	}
}
