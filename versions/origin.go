package versions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/version"
)

// Adoption describes how to copy an agent of this host, which no tarball brought, into a tree.
type Adoption struct {
	Origin  string // of Tree
	Edition version.Edition
	Files   []AdoptedFile // programs as bin/NAME, and the unit
	Extra   int64         // bytes that Complete takes
	// Complete gets the folder of the tree and the release that its agent claims to be, before the
	// tree can be found. An error ends the adoption.
	Complete func(dir string, r Release) error
}

// AdoptedFile is one file of the adopted agent.
type AdoptedFile struct {
	Name  string // in the tree
	Size  int64
	Write func(io.Writer) error // writes exactly Size bytes
}

// Adopt puts an agent of this host into the store, on stable storage. The agent itself says its
// version, so an agent that does not run here is not adopted. The tree only serves to go back to
// it: a command that wants the release of that name fetches it, see Fetch. The caller keeps
// transactions out. After an error nothing is left behind; retention removes the leftovers of a
// crash.
func (s *Store) Adopt(ctx context.Context, a Adoption) (_ Tree, err error) {
	if err := durable.MkdirAll(s.PartialDir(), 0o755); err != nil {
		return Tree{}, err
	}
	need := a.Extra + 8<<20
	for _, f := range a.Files {
		need += f.Size
	}
	if _, err := s.CheckRoom(need, a.Extra); err != nil {
		return Tree{}, err
	}
	at, err := s.adoptInto()
	defer func() {
		if err != nil {
			at.remove()
		}
	}()
	if err != nil {
		return Tree{}, err
	}
	w, err := newTreeWriter(at.programs, need-a.Extra)
	if err != nil {
		return Tree{}, err
	}
	for _, f := range a.Files {
		if err == nil {
			err = w.copy(ctx, f)
		}
	}
	if err = cmp.Or(err, w.finish()); err != nil {
		return Tree{}, err
	}
	r := Release{Edition: a.Edition}
	if r.Version, err = ProgramVersion(ctx, filepath.Join(at.programs, binName, agentName)); err != nil {
		return Tree{}, err
	}
	_, taken, err := s.Folder(r)
	if err == nil && taken {
		err = fmt.Errorf("version %s has a folder already", r.Short())
	}
	if err != nil {
		return Tree{}, err
	}
	if err := a.Complete(at.record, r); err != nil {
		return Tree{}, err
	}
	if err := seal(at.record, r, w.sums, originName, a.Origin); err != nil {
		return Tree{}, err
	}
	tree, err := s.publish(at, r, Release{}, "")
	tree.Origin = a.Origin
	return tree, err
}

// adoptInto makes the folders under names that only retention removes: other commands may be
// fetching meanwhile, and remove files with names of their own kind.
func (s *Store) adoptInto() (staging, error) {
	return s.stageIn(s.Dir, func(dir string) (string, error) { return durable.MkdirTemp(filepath.Join(dir, originName)) })
}

func (w *treeWriter) copy(ctx context.Context, f AdoptedFile) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	mode := fs.FileMode(0o644)
	if filepath.Dir(f.Name) == binName {
		mode = 0o755
	}
	out, err := w.Create(f.Name, mode, f.Size)
	if err != nil {
		return err
	}
	if err := f.Write(out); err != nil {
		out.(*treeFile).f.Close()
		return err
	}
	return out.Close()
}
