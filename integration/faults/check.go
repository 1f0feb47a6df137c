package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/layout"
)

// Stage is a World in which a scene is prepared, and known how it ends when
// nothing goes wrong.
type Stage struct {
	*World
	Scene
	Before, After State

	before, after saved
	// noSchema: the run has warned that it could not read the schema of the database. A later run that proves the version
	// writes it down; here no systemd says that the agent is healthy.
	noSchema bool
}

// saved is a whole host, aside.
type saved struct {
	dir  string
	tree map[string][]entry // by folder
}

// folders are those of the host, by the names that they are saved under.
func (w *World) folders() map[string]string {
	return map[string]string{
		"data": w.Data, "programs": w.Programs, "links": w.Links, "units": w.Units,
		"others": w.below(layout.TeleportsDir), "config": w.below(layout.ConfigDir),
	}
}

// Reset makes the host an empty one.
func (w *World) Reset() error {
	for _, dir := range w.folders() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := empty(dir); err != nil {
			return err
		}
	}
	return w.unsign()
}

// save keeps the host as it is now.
func (w *World) save(name string) (saved, error) {
	s := saved{dir: filepath.Join(w.Dir, "saved", name), tree: map[string][]entry{}}
	for sub, dir := range w.folders() {
		to := filepath.Join(s.dir, sub)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return s, err
		}
		if err := copyTree(dir, to); err != nil {
			return s, err
		}
		tree, err := readTree(dir)
		if err != nil {
			return s, err
		}
		s.tree[sub] = tree
	}
	return s, nil
}

// Play prepares a scene and plays it once undisturbed, to learn how it should
// end. The host is the prepared one then.
func (w *World) Play(ctx context.Context, scene Scene) (*Stage, error) {
	s := &Stage{World: w, Scene: scene}
	fail := func(err error) (*Stage, error) {
		return nil, fmt.Errorf("scene %q: %w", scene.Name, err)
	}
	if s.Again == nil {
		s.Again = func(*Stage, State) []string { return scene.Args(w) }
	}
	if err := errors.Join(w.put(scene.Usual), w.Reset()); err != nil {
		return fail(err)
	}
	if err := scene.Prepare(ctx, w); err != nil {
		return fail(err)
	}
	w.Wants(scene.Wanted)
	var err error
	if s.Before, err = w.Look(); err != nil {
		return fail(err)
	}
	if s.before, err = w.save("before"); err != nil {
		return fail(err)
	}
	if err := w.Must(ctx, scene.Args(w)...); err != nil {
		return fail(err)
	}
	if s.After, err = w.Look(); err != nil {
		return fail(err)
	}
	if err := s.is(s.Before, scene.From); err != nil {
		return fail(fmt.Errorf("before: %w", err))
	}
	if err := s.is(s.After, scene.To); err != nil {
		return fail(fmt.Errorf("after: %w", err))
	}
	if left, err := os.ReadDir(w.Programs); scene.To == "" && (err == nil && len(left) > 0 || !os.IsNotExist(err)) {
		return fail(fmt.Errorf("programs are left: %v, %v", left, err))
	}
	if s.after, err = w.save("after"); err != nil {
		return fail(err)
	}
	if problems := s.Converged(); len(problems) > 0 {
		return fail(errors.New(strings.Join(problems, "; ")))
	}
	return s, s.Restore()
}

// is says whether all of a host is on one version; "" is none of ours.
func (s *Stage) is(got State, v string) error {
	if v == "" {
		v = "none"
		if got.Active == v {
			return nil
		}
	} else if first, _, _ := strings.Cut(got.Links, ","); first == v && got.Unit == v && got.Active == v {
		return nil
	}
	return fmt.Errorf("%v; want version %s", got, v)
}

// Restore makes the host the prepared one again.
func (s *Stage) Restore() error {
	s.Wants(s.Wanted)
	for sub, dir := range s.folders() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := copyTree(filepath.Join(s.before.dir, sub), dir); err != nil {
			return err
		}
	}
	return nil
}

// Whole says what is wrong with a host on which a run was disturbed and then
// recovered: it must be one whole version, that of before or that of after,
// with its links, its unit and its database.
func (s *Stage) Whole() []string {
	got, err := s.Look()
	if err != nil {
		return []string{"the host cannot be read: " + err.Error()}
	}
	if len(s.Closed()) > 0 && got.Active == s.Before.Active {
		// What is proven is committed by the next run, once it has removed another updater.
		proven := got
		proven.Active, proven.Links = s.After.Active, withoutOthers(got.Links)
		if proven == s.After {
			got = proven
		}
	}
	if s.To == "" {
		return s.Stays(got)
	}
	if got != s.Before && got != s.After {
		return []string{fmt.Sprintf("neither the old nor the new version, whole: %v; the old has %v; the new has %v", got, s.Before, s.After)}
	}
	var problems []string
	c, err := s.config()
	if err != nil {
		return []string{err.Error()}
	}
	if got == s.After && !c.Status.PolicySeen.covers(s.Remembers) {
		problems = append(problems, "a version was switched to by a policy that nobody remembers")
	}
	for _, v := range []string{c.Spec.ActiveVersion, c.Status.PreviousVersion} {
		// A scene may begin with one that is damaged.
		if v != "" && !(s.From == s.To && v == s.To) {
			problems = append(problems, s.whole(v)...)
		}
	}
	return problems
}

// Stays says what is wrong with an agent that an uninstall leaves, at whatever point it was disturbed: each program is a link or a plain
// file of its version, and unit and database are as they were.
func (s *Stage) Stays(got State) (problems []string) {
	if got.Database != s.Before.Database {
		problems = append(problems, fmt.Sprintf("the database was changed: %s; it was %s", got.Database, s.Before.Database))
	}
	if s.Removes {
		return problems
	}
	for name := range s.linksOf(s.From) {
		data, err := os.ReadFile(filepath.Join(s.Links, name))
		if err != nil || digestOf(data) != s.catalog[s.From]["bin/"+name] {
			problems = append(problems, fmt.Sprintf("%s is no program of version %s: %v", name, s.From, err))
		}
	}
	if got.Unit != s.From {
		problems = append(problems, "the unit is "+got.Unit)
	}
	return problems
}

// Closed says whether a transaction is still open.
func (s *Stage) Closed() []string {
	if _, err := os.Lstat(filepath.Join(s.Versions(), "journal.json")); err == nil {
		return []string{"the journal is still there"}
	}
	return nil
}

// Converged says what differs from the host on which the scene went
// undisturbed: nothing may be left of what happened, and nothing may be missing.
func (s *Stage) Converged() []string {
	problems := append(s.Whole(), s.Closed()...)
	if got, err := s.Look(); err == nil && got != s.After {
		problems = append(problems, fmt.Sprintf("the next run did not bring it there: %v; want %v", got, s.After))
	}
	for sub, dir := range s.folders() {
		got, err := readTree(dir)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		for _, line := range diff(s.after.tree[sub], got) {
			problems = append(problems, sub+": "+line)
		}
		for _, e := range got {
			if !volatile(e.path) {
				continue
			}
			was := filepath.Join(s.after.dir, sub, e.path)
			if line := s.sameMeaning(was, filepath.Join(dir, e.path)); line != "" {
				problems = append(problems, sub+"/"+e.path+": "+line)
			}
		}
	}
	return problems
}

// volatile files hold times or process ids, or are what SQLite makes of the same
// rows.
func volatile(path string) bool {
	switch filepath.Base(path) {
	case "update.lock", "fetch.lock", "updates.yaml", "find.json", "history.json", "update_config.yaml", "backup.yaml", "settled", "sqlite.db", "sqlite.db-wal", "sqlite.db-shm":
		return true
	}
	return false
}

// sameMeaning compares two volatile files by what matters about them.
func (s *Stage) sameMeaning(was, is string) string {
	var a, b string
	var err error
	switch filepath.Base(is) {
	case "sqlite.db":
		if a, err = databaseAt(was); err == nil {
			b, err = databaseAt(is)
		}
	case "backup.yaml", "updates.yaml":
		// A repair says nothing about a change of version, but a failed one does.
		repair := s.From == s.To && s.To != ""
		if a, err = timeless(was, repair, s.noSchema); err == nil {
			b, err = timeless(is, repair, s.noSchema)
		}
	}
	if err != nil {
		return err.Error()
	}
	if a != b {
		return fmt.Sprintf("%q, want %q", b, a)
	}
	return ""
}

// timeless is a YAML file without what differs each time, and without the last
// update, or the schema of the database, if that tells nothing.
func timeless(path string, withoutLast, withoutSchema bool) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var m map[string]any
	if err := yaml.Unmarshal(data, &m); err != nil {
		return "", err
	}
	withoutTimes(m)
	if status, ok := m["status"].(map[string]any); ok && withoutLast {
		delete(status, "last_update")
	}
	if status, ok := m["status"].(map[string]any); ok && withoutSchema {
		delete(status, "active_schema")
	}
	out, err := yaml.Marshal(m)
	return string(out), err
}

func withoutTimes(m map[string]any) {
	for key, v := range m {
		switch key {
		case "time", "since", "active_since", "until", "heard", "created", "creation_time", "crc32c", "size", "next_attempt", "took":
			delete(m, key)
			continue
		}
		all, isList := v.([]any)
		if !isList {
			all = []any{v}
		}
		for _, v := range all {
			if inner, ok := v.(map[string]any); ok {
				withoutTimes(inner)
			}
		}
	}
}
