//go:build hosts

package hostfaults

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"teleport-update/integration/scenes"
)

type moment string

var activeVersion = regexp.MustCompile(`(?m)^ *active_version: *(\S+)$`)

// whole tells on which version the host is, and what of it is not of one piece,
// or stays so.
func (w *sweptHost) whole(m moment) (v string, problems []string) {
	w.T.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		v, problems = w.look(m)
		if problems == nil || time.Now().After(deadline) {
			return v, problems
		}
	}
}

func (w *sweptHost) look(m moment) (v string, problems []string) {
	if w.replaces != nil {
		return w.lookReplaced()
	}
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	config, err := w.ReadFile(store + "/updates.yaml")
	if found := activeVersion.FindSubmatch(config); found != nil {
		v = string(found[1])
	} else if w.takesOver == "" || m == afterRun {
		problem("updates.yaml names no active version: %v %q", err, config)
		return "", problems
	}
	if found := w.takesOver == "" || m == afterRun; found && v != w.from.Version && v != w.to.Version {
		problem("the active version is %q", v)
	}
	if open := w.Exists(store + "/journal.json"); open && m == afterRun {
		problem("the journal is still there")
	} else if !open && m == afterBoot {
		m = afterRun
	}
	if m == afterBoot {
		// Which version it is on, updates.yaml says only once the transaction is closed.
		if v = w.from.Version; w.Phase() == "proven" {
			v = w.to.Version
		}
	}
	problems = append(problems, w.isInPlace(v)...)
	problems = append(problems, w.treesAreWhole(v)...)
	if w.takesOver != "" {
		problems = append(problems, w.packageIsWhole(m)...)
	}
	return v, append(problems, w.agentIsWhole(v)...)
}

// isInPlace looks at what a version is started from.
func (w *sweptHost) isInPlace(v string) (problems []string) {
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		if got, want := w.Link(linkDir+"/"+name), programs+"/"+v+"/bin/"+name; got != want {
			problems = append(problems, fmt.Sprintf("link %s leads to %q, not to %s", name, got, want))
		}
	}
	unit, err := w.ReadFile(unitFile)
	want, err2 := w.ReadFile(programs + "/" + v + "/etc/systemd/teleport.service")
	if err != nil || err2 != nil || string(unit) != string(want) {
		problems = append(problems, fmt.Sprintf("the unit is not the one of version %s (%v, %v)", v, err, err2))
	}
	return problems
}

// treesAreWhole compares the files with those that reset put there. Only another
// file than that one needs to be read.
func (w *sweptHost) treesAreWhole(v string) (problems []string) {
	for _, other := range []string{w.from.Version, w.to.Version} {
		dir := store + "/" + other
		if !w.Exists(dir+"/sha256") && other != v {
			continue // it failed, and nothing needs it
		}
		r := w.Try("sh", "-c", `for d; do cd "$d" || exit 1; find . -path ./backup -prune -o -type f -print | while read -r f; do [ "$f" -ef "/root/base$d/$f" ] || echo "$f"; done; done`,
			"sh", dir, programs+"/"+other)
		if r.Code != 0 {
			problems = append(problems, fmt.Sprintf("version %s is not whole: %s", other, r.Stderr))
		} else if r.Stdout != "" {
			if sums := w.Try("sh", "-c", `cd "$1" && sha256sum --quiet -c manifest`, "sh", dir); sums.Code != 0 {
				problems = append(problems, fmt.Sprintf("version %s is not whole: %s%s", other, sums.Stdout, sums.Stderr))
			}
		}
	}
	return problems
}

// agentIsWhole asks about the process and its database.
func (w *sweptHost) agentIsWhole(v string) (problems []string) {
	answers := map[string]string{}
	for line := range strings.Lines(w.Try("sh", "-c", askScript).Stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		answers[name] = value
	}
	program := programs + "/" + v + "/bin/teleport"
	if w.replaces != nil && v == w.from.Version {
		program = w.replaces.agent
		// One that was never stopped runs from a file that was put back.
		answers["main"], answers["serving"] = strings.TrimSuffix(answers["main"], " (deleted)"), strings.TrimSuffix(answers["serving"], " (deleted)")
	}
	for _, want := range [][2]string{{"ActiveState", "active"}, {"main", program}, {"serving", program}, {"failed", ""}, {"switches", ""}} {
		if got := answers[want[0]]; got != want[1] {
			problems = append(problems, fmt.Sprintf("%s is %q, not %q", want[0], got, want[1]))
		}
	}
	schema := w.from.Schema
	if v == w.to.Version {
		schema = w.to.Schema
	}
	var have int
	var integrity string
	var rows, last int64
	if n, err := fmt.Sscan(answers["database"], &have, &integrity, &rows, &last); n != 4 {
		return append(problems, fmt.Sprintf("the database cannot be read: %s (%v)", answers["database"], err))
	}
	if have != schema || integrity != "ok" || rows != last || rows < w.least(v) {
		problems = append(problems, fmt.Sprintf("the database has schema %d, %d rows up to %d, integrity %s; want schema %d, all rows, at least %d", have, rows, last, integrity, schema, w.least(v)))
	}
	return problems
}

// least is how many rows the database of a version must have: those that were
// committed when the transaction began, or, after one that restores a database, those
// that it had.
func (w *sweptHost) least(v string) int64 {
	if v == w.to.Version && w.prepare != nil {
		return 1
	}
	return w.rows
}

// leftovers names what is left where nothing should be.
func (w *sweptHost) leftovers() (problems []string) {
	r := w.Must("find", "/usr/local/bin", "/usr/local/lib/systemd", "/etc/systemd/system", "/var/lib/teleport",
		"(", "-name", ".*", "-o", "-path", "*/partial/*", ")", "-print")
	if r != "" {
		problems = append(problems, "left over: "+strings.ReplaceAll(r, "\n", ", "))
	}
	names, err := w.Names(scenes.AgentData + "/proc")
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, name := range names {
		if !slices.Contains([]string{"sqlite.db", "sqlite.db-wal", "sqlite.db-shm", "sqlite.db-journal"}, name) {
			problems = append(problems, name+" is left beside the database")
		}
	}
	for _, v := range []string{w.from.Version, w.to.Version} {
		names, err := w.Names(path.Join(store, v, "backup"))
		if err != nil && !os.IsNotExist(err) {
			problems = append(problems, err.Error())
		}
		for _, name := range names {
			if !slices.Contains([]string{"sqlite.db", "backup.yaml", "settled"}, name) {
				problems = append(problems, fmt.Sprintf("%s is left in the backup of %s", name, v))
			}
		}
	}
	return problems
}
