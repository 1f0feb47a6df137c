package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/durable"
)

// Kind says what an entry of the versions folder is.
type Kind string

const (
	// Complete is a release with all files that mark it as whole.
	Complete Kind = "complete"
	// Incomplete is a folder with a release's name that lacks such a file; Entry.Why names it.
	Incomplete Kind = "incomplete"
	// Leftover is a folder with a temporary name from an interrupted removal.
	Leftover Kind = "leftover"
	// Reserved is a folder of ours that is no release: partial, original, rollback.
	Reserved Kind = "reserved"
	// Foreign is everything else: state files, links, names we do not know.
	Foreign Kind = "foreign"
)

// Entry is one entry of the versions folder.
type Entry struct {
	Name string // in the versions folder
	Kind Kind
	// Release has a version for Complete and Incomplete; an edition for
	// Complete, and for Incomplete if the folder's name says it.
	Release Release
	// Tree is set for Complete.
	Tree Tree
	// Why says in a few words what an Incomplete entry lacks.
	Why string
}

// holdsPrograms reports whether something may run from the entry.
func (e Entry) holdsPrograms() bool {
	return e.Kind == Complete || e.Kind == Incomplete || e.Kind == Leftover
}

// List returns every entry of the versions folder, classified, sorted by name. A folder that does
// not exist counts as empty. An entry that cannot be read is an error, because its kind is
// unknown.
func (s *Store) List() ([]Entry, error) {
	// In this order: an entry that is published between the two reads is no orphan.
	programs, err := s.listPrograms()
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	names, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	var entries []Entry
	for _, name := range names {
		e, err := s.entry(name)
		if err != nil {
			return nil, fmt.Errorf("list versions: %w", err)
		}
		entries = append(entries, e)
	}
	for _, e := range programs {
		if !slices.ContainsFunc(entries, func(known Entry) bool { return known.Name == e.Name }) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// listPrograms returns the entries of the programs' own folder, if they have one. A release's
// programs are Incomplete here: its record is elsewhere or was lost.
func (s *Store) listPrograms() (entries []Entry, err error) {
	if !s.apart() {
		return nil, nil
	}
	names, err := os.ReadDir(s.Programs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range names {
		v, edition, ok := parseFolder(d.Name())
		switch {
		case !d.IsDir():
		case durable.IsTemp(d.Name()):
			entries = append(entries, Entry{Name: d.Name(), Kind: Leftover})
		case ok:
			r := Release{Version: v, Edition: edition}
			entries = append(entries, Entry{Name: d.Name(), Kind: Incomplete, Release: r, Why: "programs without a record"})
		}
	}
	return entries, nil
}

// HasLeftovers reports whether the removal of a version was cut off: its folder has a temporary
// name already, or its record is gone. Retain continues the removal.
func (s *Store) HasLeftovers() bool {
	names, err := os.ReadDir(s.Dir)
	if err == nil && slices.ContainsFunc(names, func(d fs.DirEntry) bool {
		return d.IsDir() && durable.IsTemp(d.Name())
	}) {
		return true
	}
	programs, err := s.listPrograms()
	return err == nil && slices.ContainsFunc(programs, func(e Entry) bool {
		_, err := os.Lstat(filepath.Join(s.Dir, e.Name))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// HasOthers reports whether there are folders of other versions than these. It reads names alone,
// so that it costs next to nothing.
func (s *Store) HasOthers(versions ...string) bool {
	return slices.ContainsFunc(s.places(), func(dir string) bool {
		names, err := os.ReadDir(dir)
		return err == nil && slices.ContainsFunc(names, func(d fs.DirEntry) bool {
			v, _, ok := parseFolder(d.Name())
			return ok && d.IsDir() && !slices.Contains(versions, v)
		})
	})
}

func (s *Store) entry(d fs.DirEntry) (Entry, error) {
	name := d.Name()
	v, edition, ok := parseFolder(name)
	switch {
	case !d.IsDir():
		return Entry{Name: name, Kind: Foreign}, nil
	case name == partialName || name == originalName || name == rollbackName:
		return Entry{Name: name, Kind: Reserved}, nil
	case durable.IsTemp(name):
		return Entry{Name: name, Kind: Leftover}, nil
	case !ok:
		return Entry{Name: name, Kind: Foreign}, nil
	}
	tree, err := s.readTree(name)
	if incomplete, ok := errors.AsType[*incompleteError](err); ok {
		return Entry{Name: name, Kind: Incomplete, Release: Release{Version: v, Edition: edition}, Why: incomplete.reason}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: name, Kind: Complete, Release: tree.Release, Tree: tree}, nil
}
