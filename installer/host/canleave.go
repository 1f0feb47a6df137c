package host

import (
	"fmt"
	"os"
	"path/filepath"

	"teleport-update/internal/space"
	"teleport-update/versions"
)

// CanLeave checks, without changing anything, whether an uninstall could be ended: the folders that it changes can be written, and
// there is room for files that take the places of links. copies has the sources of these files by their places. units are the files
// of units that change: each of them may be protected by itself (chattr +i).
func CanLeave(h *Host, copies map[string]string, units []string) error {
	own := h.OwnUnits()
	dirs := []string{h.Paths.LinkDir, h.Paths.UnitDir, own.UnitDir, own.ConfigDir, h.Paths.DataDir, filepath.Dir(h.Paths.Updater()),
		h.Paths.Versions(), h.Paths.Programs()}
	for _, unit := range units {
		if Exists(unit) {
			dirs = append(dirs, unit)
		}
	}
	type need struct{ bytes, files int64 }
	room := map[string]need{}
	for path, from := range copies {
		dir := filepath.Dir(path)
		dirs = append(dirs, dir)
		info, err := os.Stat(from)
		if err != nil {
			return fmt.Errorf("see what takes the place of %s: %w", path, err)
		}
		room[dir] = need{room[dir].bytes + info.Size(), room[dir].files + 1}
	}
	if err := checkWritable(dirs); err != nil {
		return err
	}
	for dir, n := range room {
		if err := space.Check(dir, n.bytes, n.files); err != nil {
			return err
		}
	}
	return nil
}

// PlainCopies returns the sources of the files that LeavePlainFiles copies, by their places: for links into the tree, and for Lost ones.
func PlainCopies(h *Host, tree versions.Tree) (map[string]string, error) {
	links, err := linksOf(tree, h.Paths.LinkDir)
	if err != nil {
		return nil, err
	}
	lost, _, err := Lost(h, tree)
	if err != nil {
		return nil, err
	}
	copies := map[string]string{}
	for path, target := range links {
		if now, err := os.Readlink(path); err == nil && now == target {
			copies[path] = target
		}
	}
	for _, l := range lost {
		copies[l.Path] = l.Target
	}
	return copies, nil
}
