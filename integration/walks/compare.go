package walks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
)

// compare lists in what a host differs from what it should be.
func (h *machine) compare(m *Model, out *Outside, r view.Status) (diffs []string, err error) {
	d := differences{h: h, m: m}
	d.links()
	d.unit()
	d.trees()
	d.databases()
	d.config()
	d.status(out, r)
	if !m.Touched {
		d.leftovers()
	}
	return d.list, d.err
}

type differences struct {
	h    *machine
	m    *Model
	list []string
	err  error
}

func (d *differences) add(format string, args ...any) {
	d.list = append(d.list, fmt.Sprintf(format, args...))
}

func (d *differences) equal(what string, got, want any) {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		d.add("%s: %s; want %s", what, g, w)
	}
}

func (d *differences) fail(err error) bool {
	if err != nil {
		d.err = errors.Join(d.err, err)
	}
	return err != nil
}

// links: one whole version, and what is not the updater's as it was.
func (d *differences) links() {
	want := map[string]string{}
	for name, text := range d.m.Plain {
		want[name] = "file " + text
	}
	if t := d.m.tree(d.m.Active); t != nil {
		for _, name := range t.Build.Files() {
			if delete(want, name); !slices.Contains(d.m.Missing, name) {
				want[name] = "link to " + filepath.Join(d.h.folder(d.m.Active), "bin", name)
			}
		}
	}
	got := map[string]string{}
	entries, err := os.ReadDir(d.h.links())
	if d.fail(err) {
		return
	}
	for _, e := range entries {
		path := filepath.Join(d.h.links(), e.Name())
		if temporary(e.Name()) {
			continue // see leftovers
		}
		if e.Type()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(path)
			got[e.Name()] = "link to " + target
		} else {
			text, _ := os.ReadFile(path)
			got[e.Name()] = "file " + string(text)
		}
	}
	d.equal("link folder", got, want)
}

func temporary(name string) bool { return strings.HasPrefix(name, ".tmp-") }

func (d *differences) unit() {
	want := ""
	switch {
	case d.m.UnitEdited:
		want = edited
	case d.m.Active != Release{}:
		want = unitOf(d.m.Active.Version)
	case d.m.PlainUnit == edited:
		want = edited
	case d.m.PlainUnit != "":
		want = unitOf(d.m.PlainUnit)
	}
	got, err := os.ReadFile(d.h.unit())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.fail(err)
	}
	d.equal("agent's unit", string(got), want)
}

// trees: the versions that are needed, each with its build, and no other.
func (d *differences) trees() {
	want, got := map[string]string{}, map[string]string{}
	for r, t := range d.m.Trees {
		digest := t.Build.digest()
		if t.Damage == Unmarked {
			digest = ""
		}
		want[r.String()] = digest
	}
	entries, err := os.ReadDir(d.h.versions())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.fail(err)
	}
	for _, e := range entries {
		v, _, _ := strings.Cut(e.Name(), "_")
		if !e.IsDir() || strings.Count(v, ".") != 2 || temporary(e.Name()) {
			continue
		}
		dir := filepath.Join(d.h.versions(), e.Name())
		edition, _ := os.ReadFile(filepath.Join(dir, "edition"))
		digest, _ := os.ReadFile(filepath.Join(dir, "sha256"))
		name := v + " (" + strings.TrimSpace(string(edition)) + ")"
		if _, twice := got[name]; twice {
			d.add("version %s is there twice", name)
		}
		got[name] = strings.TrimSpace(string(digest))
	}
	d.equal("versions", got, want)
	for r, t := range d.m.Trees {
		text, _ := os.ReadFile(filepath.Join(d.h.folder(r), "bin", damagedProgram))
		if string(text) != t.text(damagedProgram) {
			d.add("version %s holds a %s that is not of %v, damage %d", r, damagedProgram, t.Build, t.Damage)
		}
	}
}

// databases: the agent's, and the backups of versions that were left.
func (d *differences) databases() {
	d.database("the agent's database", d.h.database(), d.m.Database)
	for r, t := range d.m.Trees {
		if r == d.m.Active {
			continue // it is taken anew whenever the version is left
		}
		dir := filepath.Join(d.h.folder(r), "backup")
		_, err := os.Stat(filepath.Join(dir, "backup.yaml"))
		complete := err == nil
		d.equal(fmt.Sprintf("version %s has a complete backup", r), complete, t.Backup != nil)
		if complete && t.Backup != nil && !t.Backup.Damaged {
			d.database("the backup of "+r.String(), filepath.Join(dir, "sqlite.db"), t.Backup.Database)
		}
	}
}

func (d *differences) database(what, path string, want *Database) {
	got, err := d.h.read(path)
	if err != nil {
		d.add("%s: %v", what, err)
	} else if !got.equal(want) {
		d.add("%s: %+v; want %+v", what, got, want)
	}
}

// config is what status does not show.
func (d *differences) config() {
	var c state.Config
	data, err := os.ReadFile(d.h.config())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.fail(err)
	}
	if d.fail(yaml.Unmarshal(data, &c)) {
		return
	}
	if i := c.Status.Interrupted; i != nil && d.m.Interrupted != nil {
		d.equal("interrupted", Interrupted{Release{Version: i.Version, Edition: i.Edition}, i.Count}, *d.m.Interrupted)
	} else {
		d.equal("interrupted at all", i != nil, d.m.Interrupted != nil)
	}
	if f := c.Status.Failed; f != nil && d.m.Failed != nil {
		d.equal("failed build", f.SHA256, d.m.Failed.Build.digest())
		d.equal("failed edition", f.Edition, d.m.Failed.Release.Edition)
	}
}

func (d *differences) status(out *Outside, r view.Status) {
	m := d.m
	version := func(r Release) string { return r.Version }
	d.equal("status installed", text(r.VersionInstalled), version(m.Active))
	d.equal("status installed edition", text(r.EditionInstalled), m.Active.Edition)
	d.equal("status previous", text(r.VersionPrevious), version(m.Previous))
	d.equal("status previous edition", text(r.EditionPrevious), m.Previous.Edition)
	d.equal("status enabled", r.UpdatesEnabled, m.Enabled)
	d.equal("status pinned", r.Pinned, m.Pinned)
	d.equal("status held", text(r.HeldVersion), version(deref(m.Held)))
	d.equal("status refused", text(r.RefusedVersion), version(deref(m.Refused)))
	d.equal("status unproven", r.Unproven, m.Active != Release{})
	last := Last{}
	if m.Last != nil {
		last = *m.Last
	}
	d.equal("status last target", text(r.LastTarget), last.Target.Version)
	d.equal("status last result", text(r.LastResult), last.Result)
	d.equal("status has a last error", r.LastError != nil, last.Result != "" && last.Result != "succeeded")
	if f := m.Failed; f == nil {
		d.equal("status failed", text(r.FailedVersion), "")
	} else {
		d.equal("status failed", text(r.FailedVersion), f.Release.Version)
		if r.FailedAttempts != nil && r.NextAttempt != nil {
			d.equal("status attempts", *r.FailedAttempts, f.Attempts)
			if off := time.Until(*r.NextAttempt) - (f.Next - m.Clock); off.Abs() > 5*time.Minute {
				d.add("status next attempt: %v off", off)
			}
		}
	}
	desired := Release{}
	switch {
	case !m.Proxy:
	case !out.Down:
		desired = out.Target
	case m.Recalled != nil:
		desired = *m.Recalled
	}
	d.equal("status desired", text(r.VersionDesired), desired.Version)
	d.equal("status desired edition", text(r.EditionDesired), desired.Edition)
	state := m.state(desired)
	if why := d.broken(); why != "" {
		d.equal("status state, where "+why, r.State, decision.NeedsAttention)
	} else {
		d.equal("status state", r.State, state)
	}
	d.equal("status open transaction", r.OpenTransaction != nil, false)
}

// folderOf is the folder of a version by the edition in it; empty if there is none.
func (d *differences) folderOf(r Release) string {
	for _, folder := range []string{r.Version + "_" + string(r.Edition), r.Version} {
		dir := filepath.Join(d.h.versions(), folder)
		if edition, err := os.ReadFile(filepath.Join(dir, "edition")); err == nil && strings.TrimSpace(string(edition)) == string(r.Edition) {
			return dir
		}
	}
	return ""
}

// broken says what others did to the links, the programs or the unit of the active version; empty
// if nothing is wrong.
func (d *differences) broken() string {
	active := d.m.Active
	if (active == Release{}) {
		return ""
	}
	dir := d.folderOf(active)
	programs, err := os.ReadDir(filepath.Join(dir, "bin"))
	if err != nil || dir == "" {
		return "the active version is not there"
	}
	if _, err := os.Stat(filepath.Join(dir, "sha256")); err != nil {
		return "the active version is not known to be whole"
	}
	for _, p := range programs {
		program := filepath.Join(dir, "bin", p.Name())
		if to, err := os.Readlink(filepath.Join(d.h.links(), p.Name())); p.Name() != "teleport-update" && (err != nil || to != program) {
			return "the link " + p.Name() + " is another's"
		}
		if info, err := os.Stat(program); err != nil || info.Mode()&0o111 == 0 || info.Size() == 0 {
			return "the program " + p.Name() + " cannot be executed"
		}
	}
	if t := d.m.tree(active); t != nil && t.Damage == Altered {
		return "the program " + damagedProgram + " is altered"
	}
	unit, err := os.ReadFile(filepath.Join(dir, "etc", "systemd", "teleport.service"))
	if err != nil {
		return "the version's unit is gone"
	}
	if info, err := os.Lstat(d.h.unit()); err != nil || !info.Mode().IsRegular() {
		return "the unit is no file"
	}
	placed, err := os.ReadFile(d.h.unit())
	line := func(text []byte) string { // an updater may add to the unit, and takes other paths
		for l := range strings.Lines(string(text)) {
			if strings.HasPrefix(l, "Description=") {
				return l
			}
		}
		return ""
	}
	if err != nil || line(placed) != line(unit) {
		return "the unit is another's"
	}
	return ""
}

// state is the host in one word.
func (m *Model) state(desired Release) decision.State {
	a := attempt{Model: m}
	switch {
	case m.FirstFailed:
		return decision.NeedsAttention
	case !m.Enabled:
		return decision.Disabled
	case m.Pinned:
		return decision.Pinned
	case m.Held != nil && desired == Release{}, desired != m.Active && m.holds(desired):
		return decision.Held
	case desired != Release{} && a.backsOff(desired):
		return decision.BackingOff
	case m.Refused != nil && *m.Refused == desired:
		return decision.NeedsAttention
	}
	return decision.Waiting // at least for systemd, which does not run here
}

func text[S ~string](s *S) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func deref(r *Release) Release {
	if r == nil {
		return Release{}
	}
	return *r
}

// leftovers are what no command may leave behind.
func (d *differences) leftovers() {
	if _, err := os.Stat(d.h.versions()); errors.Is(err, fs.ErrNotExist) {
		return
	}
	// The next answer of find takes the place of one that was half written.
	known := []string{"updates.yaml", "update.lock", "fetch.lock", "find.json", "find.json.new", "history.json", "history.json.new", "update_config.yaml", "partial", "original"}
	entries, err := os.ReadDir(d.h.versions())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.fail(err)
	}
	for _, e := range entries {
		if d.m.Removing && e.IsDir() && temporary(e.Name()) {
			continue
		}
		if strings.HasPrefix(e.Name(), "journal.json.unreadable-") {
			continue // for a person to look at
		}
		if !slices.Contains(known, e.Name()) && !slices.ContainsFunc(append(Releases(), newest), func(r Release) bool { return strings.HasPrefix(e.Name(), r.Version) }) {
			d.add("left behind: versions/%s", e.Name())
		}
	}
	for _, dir := range []string{filepath.Join(d.h.versions(), "partial"), filepath.Dir(d.h.database())} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			// A download that was cut off may be gone on with.
			if !strings.HasPrefix(e.Name(), "sqlite.db") && !slices.Contains([]string{".part", ".json"}, filepath.Ext(e.Name())) {
				d.add("left behind: %s", strings.TrimPrefix(filepath.Join(dir, e.Name()), d.h.dir))
			}
		}
	}
	d.copies()
	d.fail(filepath.WalkDir(d.h.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && temporary(e.Name()) && filepath.Dir(path) != d.h.versions() {
			d.add("left behind: %s", strings.TrimPrefix(path, d.h.dir))
		}
		return err
	}))
}

// copies of what links replaced are there as long as somebody would put them back.
func (d *differences) copies() {
	original := filepath.Join(d.h.versions(), "original")
	entries, _ := os.ReadDir(original)
	journal, _ := os.ReadFile(filepath.Join(d.h.versions(), "journal.json"))
	before, _ := os.ReadFile(filepath.Join(original, "before.json"))
	for _, e := range entries {
		if name := e.Name(); name != "before.json" && name != "backup" && !strings.Contains(string(before)+string(journal), strconv.Quote(name)) {
			d.add("left behind: versions/original/%s", name)
		}
	}
}
