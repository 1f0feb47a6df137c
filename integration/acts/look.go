package acts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sight is a host at one moment.
type sight struct {
	process  string // which one serves: its number, and when it was started
	program  string // that it executes
	is       string // the version that the program says it is; empty if it cannot be asked
	unit     string // the state of the agent's unit; empty if systemd cannot be asked
	link     string
	schema   int
	sound    string         // what SQLite says of the database
	rows     map[string]int // by the version that wrote them
	last     int            // the last one's number
	phase    string         // of the open transaction
	active   string         // version, as updates.yaml has it
	database string         // what could not be read of it
}

// agentPID finds the agent's process, and as its life the time of its start, too; its unit tells of one whose PID file is
// not there. Without a process there is no life: /proc//stat would be the host's own file.
const agentPID = `
pid=$(cat $PIDFILE 2>/dev/null || true)
[ -e $PIDFILE ] || pid=$(timeout 10 systemctl show teleport.service -p MainPID --value 2>/dev/null | sed s/^0$//)
life=""
[ -z "$pid" ] || ! begun=$(cut -d' ' -f22 /proc/$pid/stat 2>/dev/null) || life="$pid $begun"
`

const lookScript = agentPID + `
echo "process=$life"
program=$(readlink /proc/$pid/exe || true)
case $program in $LINKS/teleport* | /teleport*) program="$PROGRAMS/$(/proc/$pid/exe version | grep -o '[0-9]*\.[0-9]*\.[0-9]*' | head -1)/bin/teleport" ;; esac # a copy, also below a mount that has gone
echo "program=$program"
echo "is=$(timeout 10 /proc/$pid/exe version 2>/dev/null | grep -o '[0-9]*\.[0-9]*\.[0-9]*' | head -1)"
echo "unit=$(timeout 10 systemctl show teleport.service -p ActiveState --value 2>/dev/null)"
echo "link=$(readlink $LINKS/teleport)"
echo "phase=$(sed -n 's/^ *"phase": "\(.*\)",$/\1/p' $STORE/journal.json 2>/dev/null)"
echo "active=$(sed -n 's/^ *active_version: *//p' $STORE/updates.yaml 2>/dev/null)"
echo "database=$([ -p $DATA/proc/sqlite.db ] && echo it is a pipe || timeout 60 sqlite3 -readonly -cmd '.timeout 10000' $DATA/proc/sqlite.db "PRAGMA user_version; PRAGMA integrity_check(1);
	SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name='rows'; SELECT version || ' ' || count(*) FROM rows GROUP BY version" 2>&1 | tr '\n' ' ')"
`

// look sees what a host is on.
func (w *shared) look() sight {
	w.T.Helper()
	return seen(w.try("", lookScript).Stdout)
}

// seen is what a script saw that looked.
func seen(said string) sight {
	answers := map[string]string{}
	for line := range strings.Lines(said) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		answers[name] = strings.TrimSpace(value)
	}
	s := sight{process: answers["process"], program: answers["program"], is: answers["is"], unit: answers["unit"], link: answers["link"],
		phase: answers["phase"], active: answers["active"], rows: map[string]int{}}
	words := strings.Fields(answers["database"])
	if len(words) < 3 || words[1] != "ok" {
		s.database = answers["database"]
		return s
	}
	s.sound = words[1]
	fmt.Sscan(words[0], &s.schema)
	fmt.Sscan(words[2], &s.last)
	for pair := range slices.Chunk(words[3:], 2) {
		var n int
		fmt.Sscan(pair[1], &n)
		s.rows[pair[0]] = n
	}
	return s
}

// programPath is where a version's program is, or was: a process executes it on where its
// tree was exchanged by another one, or moved away.
var programPath = regexp.MustCompile(`/(?:\.staging-)?([0-9]+\.[0-9]+\.[0-9]+)[^/]*/bin/teleport`)

// version is the one that serves; empty if none does.
func (s sight) version() string {
	if s.is != "" {
		return s.is
	}
	if found := programPath.FindStringSubmatch(s.program); found != nil {
		return found[1]
	}
	return ""
}

// total counts the rows of all versions.
func (s sight) total() (n int) {
	for _, rows := range s.rows {
		n += rows
	}
	return n
}

// runs says what keeps a host from having an agent that runs on the database that
// belongs to it; nothing if it has one. A database that is hidden is not looked at.
func (s sight) runs(hidden bool) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	v := s.version()
	switch {
	case v == "":
		problem("no agent runs: process %q executes %q", s.process, s.program)
	case !s.serves():
		problem("the agent's unit is %s", s.unit)
	}
	switch {
	case hidden:
	case s.database != "":
		problem("the database cannot be read: %s", s.database)
	case v != "" && s.schema != schemas[v]:
		problem("version %s runs on a database of schema %d", v, s.schema)
	case s.total() != s.last:
		problem("the database has %d rows up to %d", s.total(), s.last)
	}
	return problems
}

// serves reports whether an agent runs, as far as systemd can be asked.
func (s sight) serves() bool { return s.version() != "" && (s.unit == "active" || s.unit == "") }

// settled looks until an agent runs on its own database, or the patience is over: a
// version that was just started needs its time, also on a busy machine.
func (w *shared) settled(enough func(sight) []string) (s sight, problems []string) {
	w.T.Helper()
	for deadline := time.Now().Add(impatience); ; time.Sleep(20 * time.Millisecond) {
		s = w.look()
		if problems = enough(s); problems == nil || time.Now().After(deadline) {
			return s, problems
		}
	}
}

// impatience is how long an agent may take to be back once a run has ended. It takes a few seconds; on a slow machine, more
// than twenty.
const impatience = time.Minute
