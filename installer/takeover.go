package installer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/internal/durable"
	"teleport-update/internal/procfs"
	"teleport-update/ospackage"
	"teleport-update/systemd"
)

// takenOver is the part of the journal that is about packages which brought an
// agent before the updater did (RFD 0169 §Runtime, enable steps 2, 3 and 13).
type takenOver struct {
	Packages []ospackage.Package `json:"packages,omitempty"`
	// Own are files of theirs in folders that their removal does not see.
	Own []string `json:"own,omitempty"`
	// Kept are files of the agent's that their removal would take, with copies;
	// Noted says that all of this is complete.
	Kept  []keptFile `json:"kept,omitempty"`
	Noted bool       `json:"noted,omitempty"`
	// Unit is the packages' unit, for uninstall.
	Unit []byte `json:"unit,omitempty"`
}

type keptFile struct {
	Path  string `json:"path"`
	Saved string `json:"saved"`
}

// PackageLeft is a package that is still to be removed.
type PackageLeft struct {
	ospackage.Package `yaml:",inline"`
	Since             time.Time `yaml:"since"`
	Error             string    `yaml:"error"`
	// NextAttempt is when the timer tries again; where packages were only locked,
	// at its next run.
	NextAttempt time.Time `yaml:"next_attempt,omitempty"`
}

// removeAgain is how long the timer leaves alone a package whose own scripts, or
// what depends on it, keep it on the host.
const removeAgain = 24 * time.Hour

// agentEnvironment is the file that units of the agent read their environment
// from. Like its configuration it is the agent's, whoever put it there.
const agentEnvironment = "/etc/default/teleport"

// agentPackages lists the packages to take over. Not to know is no reason to leave
// a host on an old version. Only the usual folders can be a package's.
func (i *Installer) agentPackages(ctx context.Context) []ospackage.Package {
	if i.Paths.LinkDir != DefaultPaths().LinkDir || i.Paths.DataDir != DefaultPaths().DataDir {
		return nil
	}
	packages, err := ospackage.Installed(ctx)
	if err != nil {
		i.Log.Warn("whether a package of the agent is installed could not be told; it is left alone", "error", err)
	}
	return packages
}

// takeOver removes the packages of an open transaction whose version is proven.
// The agent is not stopped for it, and needs nothing of theirs any more. What
// cannot be removed now is returned: a later run tries again, and the version
// counts all the same.
func (i *Installer) takeOver(ctx context.Context, j *journal, known []PackageLeft) (left []PackageLeft, err error) {
	if len(j.TakenOver.Packages) == 0 {
		return known, nil
	}
	if !j.TakenOver.Noted {
		if err := i.notePackages(ctx, j); err != nil {
			i.Log.Warn("the package is not removed; a later run tries again, and nothing else waits for it", "package", describePackages(j.TakenOver.Packages), "error", err)
			for _, p := range j.TakenOver.Packages {
				left = append(left, leftBehind(p, err, known, i.timestamp()))
			}
			return left, nil
		}
	}
	installed, err := ospackage.Installed(ctx)
	if err != nil {
		i.Log.Warn("whether a package of the agent is installed could not be told", "error", err)
		installed = j.TakenOver.Packages
	}
	for _, p := range j.TakenOver.Packages {
		// Its version may have changed meanwhile.
		n := slices.IndexFunc(installed, func(q ospackage.Package) bool { return q.Kind == p.Kind && q.Name == p.Name })
		if n < 0 {
			if err := p.Settle(ctx, i.fence()); err != nil {
				i.Log.Warn("the package is gone, but dpkg has not come to its end; apt may ask for `dpkg --configure -a`", "package", p.String(), "error", err)
			}
			continue
		}
		p = installed[n]
		if err := i.purge(ctx, p); err != nil {
			left = append(left, leftBehind(p, err, known, i.timestamp()))
		}
	}
	if err := i.putBackKept(j); err != nil {
		return nil, err
	}
	if len(left) == 0 {
		if err := i.removeOwn(j); err != nil {
			return nil, err
		}
	}
	return left, nil
}

func (i *Installer) purge(ctx context.Context, p ospackage.Package) error {
	i.Log.Info("removing the package that brought the agent; the agent goes on running, its configuration and data stay", "package", p.String())
	err := p.Purge(ctx, i.fence())
	switch locked, isLocked := errors.AsType[*ospackage.LockedError](err); {
	case isLocked:
		i.Log.Warn("the package cannot be removed now; a later run tries again, and nothing else waits for it", "package", p.String(), "holder", locked.Holder)
	case err != nil:
		i.Log.Warn("the package could not be removed; a later run tries again, and nothing else waits for it", "package", p.String(), "error", err)
	default:
		i.Log.Info("the package is removed", "package", p.String())
	}
	return err
}

// fence keeps from a removal what is the updater's by now.
func (i *Installer) fence() ospackage.Fence {
	return ospackage.Fence{
		Empty: []string{i.Paths.LinkDir, i.Paths.UnitDir, systemd.DefaultConfigDir},
		Gone:  []string{i.Paths.DataDir},
	}
}

func leftBehind(p ospackage.Package, err error, known []PackageLeft, now time.Time) PackageLeft {
	since := now
	for _, k := range known {
		if k.Kind == p.Kind && k.Name == p.Name {
			since = k.Since
		}
	}
	l := PackageLeft{Package: p, Since: since, Error: err.Error()}
	if _, locked := errors.AsType[*ospackage.LockedError](err); !locked {
		l.NextAttempt = now.Add(removeAgain)
	}
	return l
}

// notePackages writes down, before the first of them is touched, what is needed to
// end whole wherever that is cut off.
func (i *Installer) notePackages(ctx context.Context, j *journal) error {
	t := &j.TakenOver
	t.Own, t.Kept = nil, nil
	for _, p := range t.Packages {
		files, err := p.Files(ctx)
		if err != nil {
			i.Log.Warn("the package's files are not known; some of them may stay", "package", p.String(), "error", err)
		}
		for _, f := range files {
			if dir := filepath.Dir(f); dir == i.Paths.LinkDir || dir == i.Paths.UnitDir {
				t.Own = append(t.Own, f)
			}
		}
	}
	for n, path := range []string{i.Paths.AgentConfig, agentEnvironment} {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue // a link stays: what it leads to is not the package's
		}
		if err != nil {
			return err
		}
		saved := filepath.Join(i.Paths.Original(), fmt.Sprintf("kept-%d-%s", n, filepath.Base(path)))
		if err := durable.MkdirAll(i.Paths.Original(), 0o700); err != nil {
			return err
		}
		if err := durable.CloneFile(path, saved); err != nil {
			return err
		}
		t.Kept = append(t.Kept, keptFile{Path: path, Saved: saved})
	}
	for _, dir := range rankedBelow {
		if content, err := os.ReadFile(filepath.Join(dir, AgentUnit)); err == nil {
			t.Unit = content
		}
	}
	t.Noted = true
	return j.save(i.Paths.Journal())
}

// putBackKept puts back what a removal took of the agent's own files.
func (i *Installer) putBackKept(j *journal) error {
	for _, k := range j.TakenOver.Kept {
		if exists(k.Path) {
			continue
		}
		if err := durable.CloneFile(k.Saved, k.Path); err != nil {
			return fmt.Errorf("put back what the removal of a package took: %w", err)
		}
	}
	return nil
}

// removeOwn removes the packages' files that their removal could not see.
func (i *Installer) removeOwn(j *journal) error {
	for _, path := range j.TakenOver.Own {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || path == i.Paths.Unit() {
			continue // a link of ours by now
		}
		if err := durable.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// keepPackages adds to what uninstall knows of the host as it was before.
func (i *Installer) keepPackages(j *journal) error {
	if !j.TakenOver.Noted || !exists(i.beforeFile()) {
		return nil
	}
	b, err := i.loadBefore()
	if err != nil {
		return err
	}
	b.Packages, b.PackageUnit = j.TakenOver.Packages, j.TakenOver.Unit
	return i.writeBefore(b)
}

// forgetKept removes the copies; they may hold secrets.
func (i *Installer) forgetKept(j *journal) error {
	for _, k := range j.TakenOver.Kept {
		if err := durable.Remove(k.Saved); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// takeOverNow removes packages that are here beside an active version: those that
// could not be removed at their time, or that came since (enable step 3). It is a
// transaction that begins with the version proven.
func (i *Installer) takeOverNow(ctx context.Context, c Config, packages []ospackage.Package) error {
	if len(packages) == 0 {
		return nil
	}
	for _, p := range packages {
		if err := p.Locked(); err != nil {
			i.Log.Warn("the package cannot be removed now; a later run tries again", "package", p.String(), "error", err)
			return i.recordLeft(c, []PackageLeft{leftBehind(p, err, c.Status.PackagesLeft, i.timestamp())})
		}
	}
	tree, ok, err := i.active(c)
	if err != nil || !ok {
		return err
	}
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	t := transaction{Installer: i, conn: conn}
	agent, err := t.lookAtAgent(ctx)
	if err != nil {
		return err
	}
	r := releaseOf(tree)
	j := &journal{
		Schema: journalSchema, ID: rand.Text(), Started: i.timestamp(), BootID: procfs.BootID(),
		From: &r, To: r, Unit: unitBefore{Path: i.Paths.Unit()}, Agent: agent, Database: databaseRecord{Plan: keepDatabase},
		TakenOver: takenOver{Packages: packages},
	}
	if err := i.enterProven(j); err != nil {
		return err
	}
	return i.finish(context.WithoutCancel(ctx), j, conn)
}

// takeOverLeft tries again what could not be removed at its time.
func (i *Installer) takeOverLeft(ctx context.Context, c *Config) error {
	due := func(l PackageLeft) bool {
		wait := l.NextAttempt.Sub(i.Now())
		return wait <= 0 || wait > removeAgain // clocks jump
	}
	if !slices.ContainsFunc(c.Status.PackagesLeft, due) {
		return nil
	}
	packages := i.agentPackages(ctx)
	if len(packages) == 0 {
		c.Status.PackagesLeft = nil
		return c.save(i.Paths.Config())
	}
	if err := i.takeOverNow(ctx, *c, packages); err != nil {
		return err
	}
	now, err := loadConfig(i.Paths.Config())
	if err == nil {
		*c = now
	}
	return err
}

func (i *Installer) recordLeft(c Config, left []PackageLeft) error {
	c.Status.PackagesLeft = left
	return c.save(i.Paths.Config())
}

// describePackages names packages for a person.
func describePackages(packages []ospackage.Package) string {
	var names []string
	for _, p := range packages {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

func describeLeft(left []PackageLeft) string {
	var all []string
	for _, l := range left {
		all = append(all, l.Package.String()+": "+l.Error)
	}
	return strings.Join(all, "; ")
}
