package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/procfs"
)

// Needed is what the caller knows to be needed.
type Needed struct {
	// Releases: active, previous, and what the journal names.
	Releases []Release
	// Failed is a release that failed and is to be tried again without a download:
	// its tree stays if it came from that tarball. Empty: none.
	Failed       Release
	FailedSHA256 string
	// LinkDirs are the folders whose links count: the link folder, and those
	// of systemd where an older set-up may have linked a unit.
	LinkDirs []string
}

// Retain removes every version that nothing needs, and returns what became of
// each entry: one that could not be removed is kept, and so is one that a command
// claims. What is linked and what runs
// is looked up here; if any of it cannot be determined, nothing is removed and the
// error says why. The caller must hold the lock that keeps transactions out.
func (s *Store) Retain(needed Needed) ([]Verdict, error) {
	verdicts, err := s.Judge(needed)
	if err != nil {
		return nil, fmt.Errorf("nothing was removed from %s: %w", s.Dir, err)
	}
	var errs []error
	for n, v := range verdicts {
		if v.Keep {
			if v.Bare {
				errs = append(errs, durable.RemoveAll(v.Entry.Tree.BackupDir()))
			}
			continue
		}
		claimed, err := s.removeUnclaimed(v.Entry.Name)
		switch {
		case claimed:
			verdicts[n].Keep, verdicts[n].Reason = true, "a command that is at work has claimed it"
		case err != nil:
			errs = append(errs, err)
			verdicts[n].Keep, verdicts[n].Reason = true, "it could not be removed"
		}
	}
	if err := errors.Join(errs...); err != nil {
		return verdicts, fmt.Errorf("remove old versions: %w", err)
	}
	return verdicts, nil
}

// remove takes a release away, its record first: cut off in between, it is none any
// more, and its programs are an Incomplete entry for the next Retain. They stay for it,
// too, while a fetch is at work: it may be about to publish their record.
func (s *Store) remove(name string) (stays bool, err error) {
	if err := durable.RemoveAll(filepath.Join(s.Dir, name)); err != nil || !s.apart() {
		return false, err
	}
	if s.HasStaging() {
		return true, nil
	}
	if err := durable.RemoveAll(filepath.Join(s.Programs, name)); err != nil {
		return false, err
	}
	removeEmpty(s.Programs)
	return false, nil
}

// Judge is Retain without removing anything.
func (s *Store) Judge(needed Needed) ([]Verdict, error) {
	entries, err := s.List()
	if err != nil {
		return nil, err
	}
	in := RetainInput{Entries: entries, Failed: needed.Failed, FailedSHA256: needed.FailedSHA256}
	for _, r := range needed.Releases {
		if r.Version != "" {
			in.Keep = append(in.Keep, r)
		}
	}
	if in.Linked, err = s.linked(needed.LinkDirs); err != nil {
		return nil, fmt.Errorf("find out what links lead to: %w", err)
	}
	if in.Running, err = s.running(entries); err != nil {
		return nil, fmt.Errorf("find out what runs: %w", err)
	}
	return Classify(in), nil
}

// Discard removes one release that proved to be of no use, unless a link leads
// into it or a process runs from it. The caller must keep transactions out.
func (s *Store) Discard(t Tree, linkDirs []string) error {
	name := filepath.Base(t.Dir)
	linked, err := s.linked(linkDirs)
	if err != nil {
		return fmt.Errorf("discard version %s: %w", t.Release, err)
	}
	running, err := s.running([]Entry{{Name: name, Kind: Complete}})
	if err != nil {
		return fmt.Errorf("discard version %s: %w", t.Release, err)
	}
	if slices.Contains(linked, name) || slices.Contains(running, name) {
		return fmt.Errorf("discard version %s: it is in use", t.Release)
	}
	_, err = s.remove(name)
	return err
}

// InUse returns the entries that a link leads into or a process runs from.
func (s *Store) InUse(linkDirs []string) ([]string, error) {
	entries, err := s.List()
	if err != nil {
		return nil, err
	}
	used, err := s.linked(linkDirs)
	if err != nil {
		return nil, fmt.Errorf("find out what links lead to: %w", err)
	}
	if slices.ContainsFunc(entries, Entry.holdsPrograms) {
		running, err := s.running(entries)
		if err != nil {
			return nil, fmt.Errorf("find out what runs: %w", err)
		}
		used = append(used, running...)
	}
	slices.Sort(used)
	return slices.Compact(used), nil
}

// linked returns the entries that links in the folders lead into.
func (s *Store) linked(dirs []string) ([]string, error) {
	var names []string
	for _, dir := range dirs {
		links, err := s.linksInto(dir)
		if err != nil {
			return nil, err
		}
		names = slices.AppendSeq(names, maps.Values(links))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// running returns the entries that a process executes from.
func (s *Store) running(entries []Entry) ([]string, error) {
	// By identity, too: a process in another mount namespace has other paths.
	owner, programs := make(map[procfs.FileID]string), make(map[string]bool)
	for _, e := range entries {
		if !e.holdsPrograms() {
			continue
		}
		for _, dir := range s.places() {
			if err := identify(dir, e.Name, owner, programs); err != nil {
				return nil, err
			}
		}
	}
	processes := procfs.FS{Proc: s.ProcDir}
	executables, err := processes.Executables()
	if err != nil {
		return nil, err
	}
	dirs, err := s.realPlaces()
	if len(dirs) == 0 || err != nil {
		return nil, err
	}
	var names []string
	for _, e := range executables {
		if e.Hidden != nil {
			// One sandbox on the host must not keep every version for good: what is not
			// even called like a program of ours is none.
			for program := range programs {
				if processes.Calls(e.PID, program) {
					return nil, fmt.Errorf("process %d calls itself %s and may not be looked at: %w", e.PID, program, e.Hidden)
				}
			}
			continue
		}
		// A file that lost its name counts, too: the process may start its
		// neighbours.
		for _, dir := range dirs {
			if name := entryOf(e.Path, dir); name != "" {
				names = append(names, name)
			}
		}
		if name, ok := owner[e.File]; ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// identify notes the files that an entry has in one of the places, but for its backup,
// and the names of its programs.
func identify(place, name string, owner map[procfs.FileID]string, programs map[string]bool) error {
	top := filepath.Join(place, name)
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if path == top && errors.Is(err, fs.ErrNotExist) {
			return nil // it has nothing here
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == filepath.Join(top, backupName) {
				return fs.SkipDir
			}
			return nil
		}
		id, err := procfs.Identify(path, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return err
		}
		owner[id] = name
		if filepath.Dir(path) == filepath.Join(top, binName) {
			programs[d.Name()] = true
		}
		return nil
	})
}
