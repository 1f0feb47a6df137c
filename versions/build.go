package versions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
	"teleport-update/versions/archive"
)

// Build is a release on its way into the store. Until it is published, no reader takes it for a
// version, and Retain leaves it alone.
type Build struct {
	store   *Store
	release Release
	at      staging
	sums    []sum
	// signature is kept in the record, see Sign.
	signature []byte
}

// Begin makes the folders in which a release is built. Store.PartialDir must be there.
func (s *Store) Begin(r Release) (*Build, error) {
	at, err := s.stage(r)
	if err != nil {
		at.remove()
		return nil, &HostError{err}
	}
	return &Build{store: s, release: r, at: at}, nil
}

// Dir is the folder of the release's record, which keeps its identity when it is published.
func (b *Build) Dir() string { return b.at.record }

// Fill has fill write the release's files, and puts them on stable storage. At most ahead bytes of
// the disk are reserved before the data comes: an archive may name any size. The error is a
// *HostError, or the error of fill. Fill is called once.
func (b *Build) Fill(ahead int64, fill func(archive.Sink) error) error {
	w, err := newTreeWriter(b.at.programs, ahead)
	if err != nil {
		return err
	}
	err = fill(w)
	if local, ok := errors.AsType[*HostError](errors.Join(err, w.finish())); ok {
		return local
	}
	b.sums = w.sums
	return err
}

// Sign stores a signature over the tarball's digest in the record, byte for byte: a later command
// can verify it with its current keys. Call it before Publish.
func (b *Build) Sign(signature []byte) { b.signature = signature }

// Publish completes the release, which came from the tarball with that SHA-256, and gives it its
// name. If a release has the name already, the two change places, see publish. sibling is a
// release that keeps its folder even if the mark of its edition is lost. The error is a
// *HostError.
func (b *Build) Publish(sibling Release, sha256 string) (Tree, error) {
	if err := writeSignature(b.at.record, b.signature); err != nil {
		return Tree{}, err
	}
	err := seal(b.at.record, b.release, b.sums, digestName, sha256)
	if err != nil {
		return Tree{}, err
	}
	tree, err := b.store.publish(b.at, b.release, sibling, sha256)
	if err != nil {
		return Tree{}, &HostError{space.Explain(err, b.store.Dir)}
	}
	return tree, nil
}

// Discard removes the leftovers of a release that was not published.
func (b *Build) Discard() { b.at.remove() }

// RemoveUnfinished removes leftovers of earlier fetches, except a kept download of the tarball
// with that SHA-256. The next call tries again to remove the files that it cannot remove now. The
// caller must keep fetches out.
func (s *Store) RemoveUnfinished(sha256 string) error {
	entries, err := os.ReadDir(s.PartialDir())
	if err != nil {
		return fmt.Errorf("remove what earlier downloads left: %w", err)
	}
	leftovers := s.stagedPrograms()
	for _, e := range entries {
		if name := e.Name(); name != sha256+PartSuffix && name != sha256+InfoSuffix {
			leftovers = append(leftovers, filepath.Join(s.PartialDir(), name))
		}
	}
	for _, path := range leftovers {
		if removed := durable.RemoveTemp(path); removed != nil {
			err = errors.Join(err, fmt.Errorf("remove what earlier downloads left: %w", removed))
		}
	}
	return err
}
