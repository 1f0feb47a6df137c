package host

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Originals are the files that the updater replaced. The first enable writes it. Links
// lists only the names that the updater manages: a name is added when a version first
// ships it, with the file it replaced, and dropped once that file has been put back.
type Originals struct {
	Links []state.LinkChange `json:"links"`
	// Packages were taken over.
	Packages []state.Package `json:"packages,omitempty"`
	// Arguments are the ones that the original agent was started with, and the first version is not.
	Arguments []string `json:"arguments,omitempty"`
	// Replaced means that another updater was here, and is removed.
	Replaced bool `json:"replaced,omitempty"`
	// Placed are files that came with enable's --token-file.
	Placed []PlacedFile `json:"placed,omitempty"`
}

// PlacedFile is a file that enable put beside the agent's own.
type PlacedFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

func (h *Host) originalsFile() string { return filepath.Join(h.Paths.Original(), "before.json") }

// HasOriginals reports whether the originals are recorded.
func (h *Host) HasOriginals() bool { return Exists(h.originalsFile()) }

// WriteOriginals records the originals, durably.
func (h *Host) WriteOriginals(o Originals) error {
	if err := durable.MkdirAll(h.Paths.Original(), 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(h.originalsFile(), append(data, '\n'), 0o600)
}

// Originals reads the record.
func (h *Host) Originals() (o Originals, err error) {
	err = h.decodeOriginals(&o)
	return o, err
}

// decodeOriginals reads the record, or the part of it that is asked for.
func (h *Host) decodeOriginals(into any) error {
	data, err := regular.Read(h.originalsFile(), state.MaxJournalSize, regular.NoLink|regular.Sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// CheckNeverEnabled returns an error if it shows that an enable was proven here, nil if nothing
// shows that. An updates.yaml without an active version does not settle it: the file may have been
// lost, or written again by somebody who did not know the version.
func (h *Host) CheckNeverEnabled() error {
	if err := h.CheckNothingLinked(); err != nil {
		return err
	}
	used, err := h.Store.InUse(h.Paths.LinkDirs())
	if err == nil && len(used) > 0 {
		err = fmt.Errorf("links lead into, or processes run from, what is in %s: %s", h.Paths.Programs(), strings.Join(used, ", "))
	}
	return err
}

// CheckNothingLinked is CheckNeverEnabled for an uninstall, which leaves versions that processes execute.
func (h *Host) CheckNothingLinked() error {
	if _, err := h.Originals(); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what was here before the first enable is kept in %s", h.Paths.Original())
	}
	for _, dir := range h.Paths.LinkDirs() {
		if links, err := h.Store.LinksInto(dir); err != nil || len(links) > 0 {
			return errors.Join(err, fmt.Errorf("links lead into %s: %s", h.Paths.Programs(), strings.Join(links, ", ")))
		}
	}
	return nil
}

// NeverEnabled reports whether all that an enable left, which came to nothing, may go. If that is
// not known, it stays.
func (h *Host) NeverEnabled(c state.Config) bool {
	if c.Spec.ActiveVersion != "" {
		return false
	}
	err := h.CheckNeverEnabled()
	if err != nil {
		h.Log.Warn("no version is active, but one may have been; the copies from before the first enable stay", "error", err)
	}
	return err == nil
}

// known returns what each name gets back that is not ours any more. If that is not known, its link
// just goes: no version waits for it.
func (h *Host) known() map[string]state.Before {
	b, err := h.Originals()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.Log.Warn("it is not known which files the links replaced", "error", err)
	}
	known := make(map[string]state.Before)
	for _, l := range b.Links {
		if l.Before.Saved != "" && !Exists(filepath.Join(h.Paths.Original(), l.Before.Saved)) {
			h.Log.Warn("the file that a link replaced cannot be put back: its copy is gone", "link", l.Path, "copy", l.Before.Saved)
			continue
		}
		known[l.Path] = l.Before
	}
	return known
}

// Keep brings the originals up to a version that a transaction made ours by its changes of links, and to the updater's own link, which is
// made after it.
func (h *Host) Keep(links []state.LinkChange, tree versions.Tree, first bool) error {
	own, err := PlanUpdaterLink(h.Paths.LinkDir, tree)
	if err != nil {
		return err
	}
	changes := slices.Concat(links, own)
	if first && !h.HasOriginals() {
		b := Originals{}
		h.saveArguments(&b, tree)
		if err := h.addTo(&b, changes); err != nil {
			return err
		}
		return h.WriteOriginals(b)
	}
	if err := h.Claim(changes); err != nil {
		return err
	}
	return h.Disclaim(tree)
}

// Claim adds the names that changes make ours.
func (h *Host) Claim(changes []state.LinkChange) error {
	b, err := h.Originals()
	if err != nil {
		return nil // known warns of a record that cannot be read
	}
	had := len(b.Links)
	if err := h.addTo(&b, changes); err != nil || len(b.Links) == had {
		return err
	}
	return h.WriteOriginals(b)
}

// addTo adds changes to the record, and changes no entry of it: a name in the record is ours, and
// anything that stands there was put in our link's place.
func (h *Host) addTo(b *Originals, changes []state.LinkChange) error {
	for _, c := range changes {
		if c.Target == "" || slices.ContainsFunc(b.Links, func(l state.LinkChange) bool { return l.Path == c.Path }) {
			continue
		}
		// A transaction meets our own links if somebody took the active version out of updates.yaml, or
		// if this file is gone.
		ours := false
		if c.Before.Link != "" {
			var err error
			if ours, err = h.Store.Holds(c.Path, c.Before.Link); err != nil {
				return err
			}
		}
		if !ours {
			b.Links = append(b.Links, c)
		}
	}
	return nil
}

// Disclaim leaves out the names that the linked version does not have, and removes the copies of
// files that stand there again. The copies go first, so that a run after a cut knows of them.
func (h *Host) Disclaim(tree versions.Tree) error {
	b, err := h.Originals()
	if err != nil {
		return nil
	}
	names, err := tree.Binaries()
	if err != nil {
		return err
	}
	// The updater's own link outlives a version that brings none.
	names = append(names, UpdaterName)
	gone := func(l state.LinkChange) bool {
		return filepath.Dir(l.Path) == filepath.Clean(h.Paths.LinkDir) && !slices.Contains(names, filepath.Base(l.Path))
	}
	if !slices.ContainsFunc(b.Links, gone) {
		return nil
	}
	for _, l := range b.Links {
		if gone(l) {
			if err := DropSaved(l, h.Paths.Original()); err != nil {
				return err
			}
		}
	}
	b.Links = slices.DeleteFunc(b.Links, gone)
	return h.WriteOriginals(b)
}

// DropUndone removes the copies of files that a transaction saved and its undoing has put back. A
// failure is only a warning: the host is as it was.
func (h *Host) DropUndone(links []state.LinkChange) {
	known := h.known()
	for _, l := range links {
		if l.Before == known[l.Path] {
			continue
		}
		if err := DropSaved(l, h.Paths.Original()); err != nil {
			h.Log.Warn("the copy of a file that is in its place again could not be removed", "error", err)
		}
	}
}

// ForgetFirst removes the leftovers of a first enable that came to nothing: the version, and the
// copies of the files that it replaced, which are all in their places again. A failure is only a
// warning: the host is as it was.
func (h *Host) ForgetFirst(r version.Release) {
	tree, ok, err := h.Store.Lookup(r)
	if ok {
		err = h.Store.Discard(tree, h.Paths.LinkDirs())
	}
	err = errors.Join(err, durable.RemoveAll(h.Paths.Original()))
	if err != nil {
		h.Log.Warn("some leftovers of the first enable could not be removed", "error", err)
	}
}

// RecordPlaced makes uninstall remove a file that was not there before, unless somebody has changed
// it since.
func (h *Host) RecordPlaced(path, content string) error {
	if !h.HasOriginals() {
		return nil
	}
	o, err := h.Originals()
	if err != nil {
		return err
	}
	n := slices.IndexFunc(o.Placed, func(p PlacedFile) bool { return p.Path == path })
	switch {
	case n < 0 && Exists(path):
		return nil
	case n < 0:
		n = len(o.Placed)
		o.Placed = append(o.Placed, PlacedFile{Path: path})
	}
	o.Placed[n].SHA256 = digest([]byte(content))
	return h.WriteOriginals(o)
}

func digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// RemovePlaced removes the files that enable placed and nobody has changed since.
func RemovePlaced(h *Host) error {
	b, err := h.Originals()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no version was proven, or an uninstall was cut off after it had removed this
	}
	if err != nil {
		return err
	}
	for _, p := range b.Placed {
		data, err := regular.Read(p.Path, state.MaxConfigSize, 0)
		if err != nil || digest(data) != p.SHA256 {
			continue
		}
		if err := durable.Remove(p.Path); err != nil {
			return fmt.Errorf("remove what came with --token-file: %w", err)
		}
	}
	return nil
}

// DescribePackages names packages for a person.
func DescribePackages(packages []state.Package) string {
	var names []string
	for _, p := range packages {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}
