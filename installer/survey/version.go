package survey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/internal/executable"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Version is the version that updates.yaml calls active, as it lies on disk.
type Version struct {
	Tree  versions.Tree
	Whole bool // its record is complete
	// Changed means that somebody wrote to its program, or changed its mode, owner or labels, after it was published.
	Changed bool
	// Unusable is why its program cannot be executed; nil if it can.
	Unusable error
}

// Version looks at the active version. Without one it is the zero Version.
func (s *Survey) Version() (Version, error) {
	return s.version.get(func() (v Version, err error) {
		c, err := s.Config()
		if err != nil || c.Spec.ActiveVersion == "" {
			return Version{}, err
		}
		if v.Tree, v.Whole, err = s.from.Store.Lookup(c.Active()); err != nil || !v.Whole {
			return v, err
		}
		v.Changed = v.Tree.AgentChanged()
		v.Unusable, err = executable.Why(v.Tree.Binary("teleport"))
		return v, err
	})
}

// Damage says which part of the active version was taken away, emptied or opened to others, as far as that shows without
// reading its programs; nil if nothing was. err is why that is not known.
func (s *Survey) Damage(ctx context.Context) (why, err error) {
	return s.damage.get(func() (error, error) {
		v, err := s.Version()
		if err != nil || !v.Whole {
			return nil, err
		}
		err = v.Tree.CheckPresent(ctx)
		if failure.Is[*versions.DamagedError](err) {
			return err, nil
		}
		return nil, err
	})
}

// Pair says why a repair leaves links and unit as they are: another program stands there, and the
// agent's database may fit that alone. It is nil if nothing is known to speak against a repair.
func (s *Survey) Pair(ctx context.Context) (why, err error) {
	return s.pair.get(func() (error, error) {
		v, err := s.Version()
		if err != nil || !v.Whole {
			return nil, err
		}
		c, err := s.Config()
		if err != nil {
			return nil, err
		}
		err = s.from.Fits.CheckPair(ctx, c, v.Tree, seen{s})
		if failure.Is[*failure.RefusedError](err) {
			return err, nil
		}
		return nil, err
	})
}

// Led says why a repair leaves the unit of the active version as it is: somebody wrote another one, by which the agent runs and
// which leads it elsewhere.
func (s *Survey) Led(ctx context.Context) (why, err error) {
	v, err := s.Version()
	if err != nil || !v.Whole {
		return nil, err
	}
	err = s.from.Fits.CheckLed(ctx, v.Tree, seen{s})
	if failure.Is[*failure.RefusedError](err) {
		return err, nil
	}
	return nil, err
}

// Links says what is wrong with the links and the unit file of the active version, a
// sentence each. It looks at each of them once.
func (s *Survey) Links() ([]string, error) {
	return s.links.get(func() ([]string, error) {
		v, err := s.Version()
		if err != nil || !v.Whole {
			return nil, err
		}
		return s.from.Place.Problems(v.Tree)
	})
}

// Starts says what keeps systemd from starting the active version by its unit; for an agent that
// runs, at its next start. It is nil if nothing does. err is why that is not known.
func (s *Survey) Starts(ctx context.Context) (why, err error) {
	return s.starts.get(func() (error, error) {
		v, err := s.Version()
		if err != nil || !v.Whole {
			return nil, err
		}
		a, err := s.Agent(ctx)
		if err != nil {
			return nil, err
		}
		if why := s.from.Place.CheckStarts(a.Unit, v.Tree); why != nil || !a.Serves() {
			return why, nil
		}
		// For an agent that does not run, the advice to start it says what it lacks.
		why, err := s.startOf(ctx)
		if err != nil {
			return nil, err
		}
		if failure.Is[*host.UnresolvedError](why) {
			return why, nil
		}
		if why != nil {
			return fmt.Errorf("the agent runs, and its next start would fail: %w", why), nil
		}
		if c, err := s.Config(); err == nil {
			why = s.from.Place.CheckDatabaseThere(a.Process.PID, c.Status.ActiveSchema != "" || s.backedUp(c.Previous()) || s.backedUp(c.Active()))
		}
		if errors.Is(why, fs.ErrPermission) {
			return nil, why // nobody could look
		}
		return why, nil
	})
}

// NextStart says what keeps the agent from starting by its unit as systemd has it, whatever version that leads to; nil
// if nothing does. err is why that is not known.
func (s *Survey) NextStart(ctx context.Context) (why, err error) {
	why, err = s.startOf(ctx)
	if failure.Is[*host.UnresolvedError](why) {
		return nil, err // it keeps versions from being changed, and no agent from starting
	}
	return why, err
}

func (s *Survey) startOf(ctx context.Context) (why, err error) {
	return s.nextStart.get(func() (error, error) {
		a, err := s.Agent(ctx)
		if err != nil {
			return nil, err
		}
		why := s.from.Place.CheckNextStart(ctx, a.Unit, "")
		if errors.Is(why, fs.ErrPermission) {
			return nil, why // nobody could look
		}
		return why, nil
	})
}

// backedUp reports whether the agent had a database when the host left a version.
func (s *Survey) backedUp(r version.Release) bool {
	tree, ok, err := s.from.Store.Lookup(r)
	if err != nil || !ok {
		return false
	}
	_, err = backup.Created(tree.BackupDir())
	return err == nil
}

// Kept reports whether a release is on disk, with a whole record.
func (s *Survey) Kept(r version.Release) bool {
	if s.kept[r] == nil {
		s.kept[r] = &part[bool]{}
	}
	kept, _ := s.kept[r].get(func() (bool, error) {
		_, ok, err := s.from.Store.Lookup(r)
		return ok, err
	})
	return kept
}
