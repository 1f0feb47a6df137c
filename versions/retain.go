package versions

import (
	"errors"
	"fmt"

	"teleport-update/internal/durable"
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
