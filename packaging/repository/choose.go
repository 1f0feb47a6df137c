package repository

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// packages returns all packages for the new repository: the published ones and the
// added ones. They are in the stage, sorted by path.
func (o *Options) packages(ctx context.Context, s *stage, before *published) ([]*pkg, error) {
	c := &choice{stage: s, withdrawn: make(map[string]bool), was: make(map[string]*pkg)}
	for _, v := range o.Withdraw {
		c.withdrawn[v] = false
	}
	for name, digest := range before.packages {
		if err := c.stay(ctx, o.Dir, name, digest); err != nil {
			return nil, fmt.Errorf("%s, which is published: %w; put it back, or --withdraw its version", name, err)
		}
	}
	for _, file := range o.Packages {
		if err := c.add(ctx, file); err != nil {
			return nil, fmt.Errorf("package %s: %w", file, err)
		}
	}
	for v, found := range c.withdrawn {
		if !found {
			return nil, fmt.Errorf("there is no version %s to withdraw", v)
		}
	}
	all := newest(c.all, o.Keep)
	if len(all) == 0 {
		return nil, errors.New("there is no package to publish")
	}
	slices.SortFunc(all, func(a, b *pkg) int { return strings.Compare(a.path, b.path) })
	for _, p := range all {
		if err := s.lay(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// choice collects the packages, one after the other.
type choice struct {
	stage     *stage
	withdrawn map[string]bool // whether the version has a package
	was       map[string]*pkg // by path in the repository
	all       []*pkg
}

// withdraws reports whether a version is to be withdrawn.
func (c *choice) withdraws(version string) bool {
	_, ok := c.withdrawn[version]
	if ok {
		c.withdrawn[version] = true
	}
	return ok
}

// stay takes a published package, if it has not changed.
func (c *choice) stay(ctx context.Context, dir, name, digest string) error {
	// The name is signed, so a damaged or missing package can be withdrawn.
	if v, err := semver(versionIn(name)); err == nil && c.withdraws(v) {
		return nil
	}
	p, err := c.stage.readPackage(ctx, filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if p.path != name || p.sha256 != digest {
		return errors.New("it is not the one that was published")
	}
	c.was[p.path] = p
	c.all = append(c.all, p)
	return nil
}

// add takes a new package. It ignores a published one, even if another key signed it.
func (c *choice) add(ctx context.Context, file string) error {
	taken, err := c.stage.take(file)
	if err != nil {
		return err
	}
	p, err := c.stage.readPackage(ctx, taken)
	if err != nil {
		return err
	}
	if c.withdraws(p.version) {
		return nil
	}
	if old := c.was[p.path]; old != nil {
		if old.unsigned != p.unsigned {
			return fmt.Errorf("%s was published with another content, and hosts may have it: build it with a higher version", p.path)
		}
		return nil
	}
	if p.isRPM {
		if err := c.stage.checkRPM(ctx, taken); err != nil {
			return err
		}
	}
	p.isNew = true
	c.was[p.path] = p
	c.all = append(c.all, p)
	return nil
}
