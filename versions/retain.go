package versions

import (
	"errors"
	"fmt"

	"teleport-update/internal/durable"
)

// Needed holds the releases that the caller needs.
type Needed struct {
	// Releases are the active one, the previous one, and the releases in the journal.
	Releases []Release
	// Failed is a release that failed and is to be tried again without a download: its tree stays if
	// it came from the tarball with that SHA-256. Empty: none.
	Failed       Release
	FailedSHA256 string
	// LinkDirs are the folders whose links count: the link folder, and systemd's folders if an older
	// set-up may have linked a unit there.
	LinkDirs []string
}

// Retain removes every version that is not needed, and returns the verdict on each entry. It keeps
// an entry that a command claims, or that cannot be removed. It looks up links and running
// processes itself; if it cannot determine any of them, it removes nothing and returns an error.
// The caller must hold the lock that keeps transactions out.
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
