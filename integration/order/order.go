package order

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/integration/trace"
	"teleport-update/internal/durable"
)

// reportFile has the agent report to its cluster.
const reportFile = "10-teleport-update-report.conf"

// recorder looks at the changing calls of a run. It keeps what they amount to, in
// order, and every case in which something that a later step counts on was not on
// stable storage when that step came.
type recorder struct {
	h      *machine
	Events []string // as in "journal: begun", "link tsh"
	Loose  []string

	dirty map[string]string // a file, or a folder whose names changed: by which call
	new   map[string]bool   // being opened, and not there before
}

func newRecorder(h *machine) *recorder {
	return &recorder{h: h, dirty: map[string]string{}, new: map[string]bool{}}
}

// watch is for trace.Run.
func (r *recorder) watch(c trace.Call) trace.Action {
	if !strings.HasPrefix(c.Path, r.h.dir) {
		return trace.GoOn()
	}
	if !c.Exit {
		r.before(c)
	} else if c.Errno == 0 {
		r.after(c)
	}
	return trace.GoOn()
}

func (r *recorder) name(path string) string { return strings.TrimPrefix(path, r.h.dir+"/") }

// unsynced names are caches, locks, downloads that the next run may go on with,
// and what SQLite's readers share: losing them costs nothing.
func (r *recorder) unsynced(path string) bool {
	base := filepath.Base(path)
	switch {
	case strings.HasPrefix(base, "find.json"), strings.HasPrefix(base, "history.json"), base == "update.lock", base == "fetch.lock", strings.HasSuffix(base, "-shm"):
		return true
	case filepath.Base(filepath.Dir(path)) == "partial":
		return !strings.HasPrefix(base, ".staging-")
	}
	return false
}

// temporary reports whether a part of the path is a name that stands for nothing
// whole: what happens below it does not matter until it is renamed.
func (r *recorder) temporary(path string) bool {
	return slices.ContainsFunc(strings.Split(r.name(path), "/"), durable.IsTemp)
}

func (r *recorder) before(c trace.Call) {
	switch {
	case strings.HasPrefix(c.Name, "open"):
		_, err := os.Lstat(c.Path)
		r.new[c.Path] = err != nil
	case strings.HasPrefix(c.Name, "rename"):
		if !r.temporary(c.To) {
			r.settled(c.Path, "renamed to "+r.name(c.To))
		}
		if strings.HasSuffix(filepath.Dir(c.To), ".wants") {
			r.enables(c)
		}
		switch filepath.Base(c.To) {
		case "journal.json", "updates.yaml":
			r.all(r.name(c.To)+" is written", c.Path)
		}
	case strings.HasPrefix(c.Name, "unlink") && c.Path == r.h.journal():
		r.all("the journal is removed", "")
	}
}

// settled complains about what is not synced at a path or below it, which is
// about to get its name.
func (r *recorder) settled(path, why string) {
	if r.unsynced(path) {
		return
	}
	for p, call := range r.dirty {
		if p == path || strings.HasPrefix(p, path+"/") {
			r.Loose = append(r.Loose, fmt.Sprintf("%s was not synced after %s when it was %s", r.name(p), call, why))
		}
	}
}

// enables complains about a unit that is enabled by a link to a file which is not
// there yet, or may not be after a power cut: a boot would do without it.
func (r *recorder) enables(c trace.Call) {
	unit, err := os.Readlink(c.Path)
	if err == nil {
		_, err = os.Stat(unit)
	}
	if err != nil {
		r.Loose = append(r.Loose, fmt.Sprintf("%s led nowhere when it was made: %v", r.name(c.To), err))
		return
	}
	for _, path := range []string{unit, filepath.Dir(unit)} {
		if call := r.dirty[path]; call != "" {
			r.Loose = append(r.Loose, fmt.Sprintf("%s was not synced after %s when %s was made", r.name(path), call, r.name(c.To)))
		}
	}
}

// all complains about everything that is not synced, at a step that counts on it.
func (r *recorder) all(when, except string) {
	for p, call := range r.dirty {
		if p != except && !r.temporary(p) && !r.staging(p) {
			r.Loose = append(r.Loose, fmt.Sprintf("%s was not synced after %s when %s", r.name(p), call, when))
		}
	}
}

func (r *recorder) staging(path string) bool { return strings.Contains(path, "/.staging-") }

func (r *recorder) after(c trace.Call) {
	switch name := c.Name; {
	case name == "fsync", name == "fdatasync":
		delete(r.dirty, c.Path)
	case strings.HasPrefix(name, "open"):
		if r.new[c.Path] {
			r.touch(c.Path, c)
			r.named(c.Path, c)
			if strings.HasPrefix(c.Path, r.h.database()+".damaged-") {
				r.event("the database is kept aside")
			}
		}
	case strings.Contains(name, "write"), name == "ftruncate", name == "fallocate", name == "fchmod", name == "fchown", name == "fchmodat", name == "fchownat":
		r.touch(c.Path, c)
		if c.Path == r.h.database() && strings.Contains(name, "write") {
			r.event("the database is written")
		}
	case strings.HasPrefix(name, "mkdir"), strings.HasPrefix(name, "symlink"):
		r.named(c.Path, c)
	case strings.HasPrefix(name, "link"):
		r.named(c.To, c)
		if filepath.Dir(c.To) == filepath.Join(r.h.versions(), "rollback") {
			r.event("put rollback/" + filepath.Base(c.To))
		}
	case strings.HasPrefix(name, "unlink"):
		delete(r.dirty, c.Path)
		r.named(c.Path, c)
		r.gone(c.Path)
	case strings.HasPrefix(name, "rename"):
		r.renamed(c)
	}
}

func (r *recorder) renamed(c trace.Call) {
	for p, call := range r.dirty {
		if rest, ok := strings.CutPrefix(p, c.Path); ok && (rest == "" || rest[0] == '/') {
			delete(r.dirty, p)
			r.dirty[c.To+rest] = call
		}
	}
	r.named(c.Path, c)
	r.named(c.To, c)
	if durable.IsTemp(filepath.Base(c.To)) {
		r.gone(c.Path)
		return
	}
	r.put(c.To)
}

// touch notes a file whose content or attributes changed.
func (r *recorder) touch(path string, c trace.Call) {
	if !r.unsynced(path) {
		r.dirty[path] = c.Name
	}
}

// named notes a folder in which a name came or went.
func (r *recorder) named(path string, c trace.Call) {
	// A name that stands for nothing whole may be lost, and may not come back: nobody
	// may be left to remove it.
	base := filepath.Base(path)
	goes := strings.HasPrefix(c.Name, "unlink")
	if !r.unsynced(path) && (goes || !durable.IsTemp(base) && !strings.HasPrefix(base, ".staging-")) {
		r.dirty[filepath.Dir(path)] = c.Name + " of " + filepath.Base(path)
	}
}

// informs reports whether a file of the store only tells somebody something: no step counts
// on it.
func informs(name string) bool {
	return name == "find.json" || name == "history.json" || name == "update_config.yaml"
}

// put and gone note what a change of a name means.
func (r *recorder) put(path string) {
	name := r.name(path)
	switch rest, version := strings.CutPrefix(name, "data/versions/"); {
	case path == r.h.journal():
		var j struct {
			Phase    string
			Database struct{ Taken bool }
		}
		data, _ := os.ReadFile(path)
		_ = json.Unmarshal(data, &j)
		what := "journal: " + j.Phase
		if j.Database.Taken {
			what += ", backup taken"
		}
		r.event(what)
	case path == r.h.config():
		r.event("configuration")
	case filepath.Dir(path) == r.h.links():
		r.event("link " + filepath.Base(path))
	case path == r.h.unit():
		r.event("unit")
	case strings.HasSuffix(name, ".wants/"+filepath.Base(r.h.unit())):
		r.event("agent enabled")
	case filepath.Base(path) == reportFile:
		r.event("cluster report")
	case strings.HasPrefix(name, "units/"):
		r.event("updater's units")
	case strings.HasPrefix(path, r.h.journal()+".unreadable-"):
		r.event("journal kept aside")
	case version && filepath.Base(path) == "settled": // informs, as below: it counts where all that follows is lost
	case version && strings.Contains(rest, "/backup/"), version && strings.HasPrefix(rest, "original/"):
		r.event("put " + rest)
	case version && !strings.Contains(rest, "/") && !informs(rest):
		r.event("publish " + rest)
	case strings.HasPrefix(name, "data/updater/"):
		r.event("updater's copy")
	case path == r.h.database():
		r.event("the database is replaced")
	}
}

func (r *recorder) gone(path string) {
	if r.temporary(path) {
		return
	}
	name := r.name(path)
	switch rest, version := strings.CutPrefix(name, "data/versions/"); {
	case path == r.h.journal():
		r.event("journal removed")
	case filepath.Dir(path) == r.h.links():
		r.event("link " + filepath.Base(path) + " goes")
	case path == r.h.unit():
		r.event("unit goes")
	case filepath.Base(path) == reportFile:
		r.event("cluster report goes")
	case strings.HasPrefix(name, "units/") && filepath.Base(path) != "teleport.service.d":
		r.event("updater's units go")
	case version && strings.HasSuffix(rest, "/backup/backup.yaml") && !strings.HasPrefix(rest, "partial/"),
		version && filepath.Dir(rest) == "original":
		r.event("drop " + rest)
	case version && !strings.Contains(rest, "/") && !informs(rest):
		r.event("remove " + rest)
	case name == "data/versions":
		r.event("remove the store")
	case name == "data/updater":
		r.event("remove the updater's copy")
	case filepath.Dir(path) == r.h.programs() && !informs(filepath.Base(path)):
		r.event("remove the programs of " + filepath.Base(path))
	case strings.HasPrefix(path, r.h.database()+"-") && !strings.HasSuffix(path, "-shm") && !strings.HasSuffix(path, "-journal"):
		r.event("drop " + filepath.Base(path))
	}
}

// event adds what happened, once if it is made of several calls.
func (r *recorder) event(what string) {
	if n := len(r.Events); n == 0 || r.Events[n-1] != what {
		r.Events = append(r.Events, what)
	}
}

// end is the end of the run: nothing may be left to chance.
func (r *recorder) end() {
	r.all("the run ended", "")
	slices.Sort(r.Loose)
	r.Loose = slices.Compact(r.Loose)
}
