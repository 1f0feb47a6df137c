package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/versions"
)

// LeavePlainFiles replaces each link of the tree in linkDir by a copy of its target, durably, so that the programs outlive the store. It
// can be repeated.
func LeavePlainFiles(linkDir string, t versions.Tree) error {
	links, err := linksOf(t, linkDir)
	if err != nil {
		return err
	}
	for _, path := range slices.SortedFunc(maps.Keys(links), compareNames) {
		target := links[path]
		if now, err := os.Readlink(path); err != nil || now != target {
			continue // somebody else has changed it
		}
		if err := copyOver(target, path); err != nil {
			return fmt.Errorf("make %s a plain file: %w", path, err)
		}
	}
	return nil
}

// Lost returns what keeps the agent of a tree from being left as plain files: links that are gone, lead nowhere or into the store, which
// goes, and whether the agent's unit is gone or empty. A program or a unit of somebody else is left out: once the store is removed,
// nothing would keep a copy.
func Lost(h *Host, tree versions.Tree) (links []state.LinkChange, unit bool, err error) {
	all, err := PlanFreeLinks(h, tree)
	if err != nil {
		return nil, false, err
	}
	for _, c := range all {
		stays, err := outlivesStore(h, c.Path, c.Before)
		if err != nil {
			return nil, false, err
		}
		if !stays {
			links = append(links, c)
		}
	}
	now, err := ReadUnit(h.Paths.Unit())
	return links, UnitLost(now), err
}

// outlivesStore reports whether the program at a path is not in the store.
func outlivesStore(h *Host, path string, now state.Before) (bool, error) {
	if now.Link == "" {
		return now.Saved != "", nil
	}
	if _, err := os.Stat(path); err != nil {
		return false, nil // it leads nowhere
	}
	ours, err := h.Store.Holds(path, now.Link)
	return !ours, err
}

// PlaceLost puts links and unit that are Lost in their places.
func PlaceLost(h *Host, tree versions.Tree) error {
	links, unit, err := Lost(h, tree)
	if err != nil {
		return err
	}
	if err := h.Link(links); err != nil {
		return fmt.Errorf("repair the links: %w", err)
	}
	if unit {
		err = h.PlaceUnit(tree)
	}
	if err != nil {
		return fmt.Errorf("repair the agent's unit: %w", err)
	}
	return nil
}

func copyOver(from, to string) error {
	f, _, err := regular.Open(from, regular.NoLink)
	if err != nil {
		return err
	}
	defer f.Close()
	return durable.CopyFile(to, f, 0o755)
}

// Programs returns the agent's programs in the folder of links: links into the store, or plain files that took their places. The tree is
// the zero Tree if it is not known any more.
func (h *Host) Programs(tree versions.Tree) (paths []string, err error) {
	names, err := tree.Binaries()
	if known := tree.Dir != "" && err == nil; !known {
		o, originalsErr := h.Originals()
		if originalsErr != nil && !errors.Is(originalsErr, fs.ErrNotExist) {
			return nil, errors.Join(err, originalsErr)
		}
		names = []string{AgentName}
		for _, l := range o.Links {
			names = append(names, filepath.Base(l.Path))
		}
	}
	slices.SortFunc(names, compareNames)
	for _, name := range slices.Compact(names) {
		path := filepath.Join(h.Paths.LinkDir, name)
		program := ""
		if tree.Dir != "" {
			program = tree.Binary(name)
		}
		ours, err := h.isProgram(path, program)
		if err != nil {
			return nil, err
		}
		if ours && name != UpdaterName {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// isProgram reports whether a path is a link into the store, or a copy of a program; if the program is gone, any regular file.
func (h *Host) isProgram(path, program string) (bool, error) {
	if target, err := os.Readlink(path); err == nil {
		return h.Store.Holds(path, target)
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	if Absent(program) {
		return true, nil
	}
	return SameContent(program, path)
}

// RemovePlainFiles removes programs that took the places of links, as by an uninstall that was cut off. It leaves links alone.
func RemovePlainFiles(programs []string) error {
	for _, path := range programs {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			if err := durable.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveLinks removes every link that leads into the store, durably.
func (h *Host) RemoveLinks() error {
	links, err := h.Store.LinksInto(h.Paths.LinkDir)
	if err != nil {
		return err
	}
	for _, path := range links {
		if err := durable.UnlinkNoSync(path); err != nil {
			return err
		}
	}
	if len(links) == 0 {
		return nil
	}
	return durable.SyncDir(h.Paths.LinkDir)
}
