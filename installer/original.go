package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/durable"
	"teleport-update/ospackage"
	"teleport-update/versions"
)

// before is what stood in the places that are the updater's now. The first enable
// begins it; from then on Links has the names that are ours, and no others: one
// that a later version brings is added with what stood there, one that a version
// does not bring any more has got that back, and is left out.
type before struct {
	Links []versions.LinkChange `json:"links"`
	Unit  unitBefore            `json:"unit"`
	// Packages were taken over; PackageUnit was their unit of the agent.
	Packages    []ospackage.Package `json:"packages,omitempty"`
	PackageUnit []byte              `json:"package_unit,omitempty"`
	// Placed are files that came with enable's --token-file.
	Placed []placedFile `json:"placed,omitempty"`
}

func (i *Installer) beforeFile() string { return filepath.Join(i.Paths.Original(), "before.json") }

func (i *Installer) writeBefore(b before) error {
	if err := durable.MkdirAll(i.Paths.Original(), 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(i.beforeFile(), append(data, '\n'), 0o600)
}

func (i *Installer) readBefore() (b before, err error) {
	data, err := readTrusted(i.beforeFile(), maxJournalSize)
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	return b, err
}

// loadBefore is readBefore where there is no way on without it.
func (i *Installer) loadBefore() (before, error) {
	b, err := i.readBefore()
	if errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("what was here before the first enable is not known (%s is missing); updates are disabled, nothing else was changed: "+
			"`teleport-update uninstall --keep-agent` leaves the agent as plain files", i.beforeFile())
	}
	return b, err
}

// checkNeverEnabled says what tells that an enable was proven here, nil if nothing
// does. An updates.yaml without an active version does not settle it: the file may
// have been lost, or written anew by somebody who did not know the version.
func (i *Installer) checkNeverEnabled() error {
	if _, err := i.readBefore(); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what was here before the first enable is kept in %s", i.Paths.Original())
	}
	used, err := i.store().InUse(i.linkDirs())
	if err == nil && len(used) > 0 {
		err = fmt.Errorf("links lead into, or processes run from, what is in %s: %s", i.Paths.Versions(), strings.Join(used, ", "))
	}
	return err
}

// neverEnabled reports whether all that an enable left, which came to nothing, may
// go. Whoever cannot tell keeps it.
func (i *Installer) neverEnabled(c Config) bool {
	if c.Spec.ActiveVersion != "" {
		return false
	}
	err := i.checkNeverEnabled()
	if err != nil {
		i.Log.Warn("no version is active, but one may have been; what is kept of the time before stays", "reason", err)
	}
	return err == nil
}

// originals is what a name gets back that is not ours any more. Where that is not
// known, its link just goes: no version waits for it.
func (i *Installer) originals() map[string]versions.Before {
	b, err := i.readBefore()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.Log.Warn("what stood in the places of links is not known", "error", err)
	}
	known := make(map[string]versions.Before)
	for _, l := range b.Links {
		if l.Before.Saved != "" && !exists(filepath.Join(i.Paths.Original(), l.Before.Saved)) {
			i.Log.Warn("what stood in the place of a link cannot be put back: its copy is gone", "link", l.Path, "copy", l.Before.Saved)
			continue
		}
		known[l.Path] = l.Before
	}
	return known
}

// keepBefore brings what uninstall knows up to the version that the journal made
// ours, and to the updater's own link, which is made after it.
func (i *Installer) keepBefore(j *journal, tree versions.Tree, first bool) error {
	own, err := versions.PlanUpdaterLink(i.Paths.LinkDir, tree)
	if err != nil {
		return err
	}
	changes := slices.Concat(j.Links, own)
	if first && !exists(i.beforeFile()) {
		b := before{Unit: j.Unit}
		if err := i.addTo(&b, changes); err != nil {
			return err
		}
		return i.writeBefore(b)
	}
	if err := i.noteBefore(changes); err != nil {
		return err
	}
	return i.dropBefore(tree)
}

// noteBefore adds the names that changes make ours.
func (i *Installer) noteBefore(changes []versions.LinkChange) error {
	b, err := i.readBefore()
	if err != nil {
		return nil // uninstall says so
	}
	had := len(b.Links)
	if err := i.addTo(&b, changes); err != nil || len(b.Links) == had {
		return err
	}
	return i.writeBefore(b)
}

// addTo adds changes to what is written down already, and that stays: a name
// which is there is ours, and what stands there was put in our link's place.
func (i *Installer) addTo(b *before, changes []versions.LinkChange) error {
	for _, c := range changes {
		if c.Target == "" || slices.ContainsFunc(b.Links, func(l versions.LinkChange) bool { return l.Path == c.Path }) {
			continue
		}
		// Without an active version in updates.yaml, where somebody took it out, or
		// without this file, a switch meets our own links.
		if ours, err := i.store().LinkedBefore(c); err != nil {
			return err
		} else if !ours {
			b.Links = append(b.Links, c)
		}
	}
	return nil
}

// dropBefore leaves out the names that are not of the version which is linked,
// and removes the copies of what stands there again; those first, so that whoever
// is cut off in between knows of them.
func (i *Installer) dropBefore(tree versions.Tree) error {
	b, err := i.readBefore()
	if err != nil {
		return nil
	}
	names, err := tree.Binaries()
	if err != nil {
		return err
	}
	// The updater's own link outlives a version that brings none.
	names = append(names, updaterName)
	gone := func(l versions.LinkChange) bool {
		dir, name := filepath.Split(l.Path)
		return filepath.Clean(dir) == filepath.Clean(i.Paths.LinkDir) && !slices.Contains(names, name)
	}
	if !slices.ContainsFunc(b.Links, gone) {
		return nil
	}
	for _, l := range b.Links {
		if gone(l) {
			if err := versions.DropSaved(l, i.Paths.Original()); err != nil {
				return err
			}
		}
	}
	b.Links = slices.DeleteFunc(b.Links, gone)
	return i.writeBefore(b)
}

// dropUndone removes the copies that a switch saved of what its undoing has put
// back. Failing to is a warning: the host is as it was.
func (i *Installer) dropUndone(j *journal) {
	known := i.originals()
	for _, l := range j.Links {
		if l.Before == known[l.Path] {
			continue
		}
		if err := versions.DropSaved(l, i.Paths.Original()); err != nil {
			i.Log.Warn("the copy of a file that is in its place again could not be removed", "error", err)
		}
	}
}
