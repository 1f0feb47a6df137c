package installer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/procfs"
	"teleport-update/internal/regular"
	"teleport-update/internal/successor"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

const (
	// successorStart is more than a program of this size takes to begin on a
	// busy host with a slow disk.
	successorStart = 30 * time.Second
	// successorLimit leaves the older updater an hour of the three that the
	// timer's unit has; a download that is cut off by it is gone on with.
	successorLimit = 2 * time.Hour
)

// ownVersion returns the version that was stamped into this program's build, or "".
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return versions.StampedVersion(info)
}

// RunNewer gives a command to the active version's own updater if that is newer
// than this one, so that updates come with the updater they need (RFD 0169
// §Runtime; it says "different": then an upgraded package would never take effect,
// and an older updater would meet a newer journal). The arguments are those of the
// command line.
//
// RunNewer returns the exit code of the newer one. If ran is false, there is no newer one, or it failed or hung before it had changed
// anything: then this program runs the command itself (§Failure Conditions).
func (i *Installer) RunNewer(ctx context.Context, args []string) (code int, ran bool) {
	u, ok := i.newerUpdater()
	if !ok {
		return 0, false
	}
	before, err := i.footprint()
	if err != nil {
		i.Machine.Host.Log.Warn("the newer updater is not run, because its changes could not be followed", "newer", u.Version, "error", err)
		return 0, false
	}
	untouched := func() bool {
		now, err := i.footprint()
		return err == nil && now == before
	}
	i.Machine.Host.Log.Debug("giving the command to the active version's newer updater", "newer", u.Version, "own", i.BuildVersion, "program",
		u.Path)
	end, err := successor.Run(ctx, successor.Command{
		Path: u.Path, Args: args, StartLimit: successorStart, Limit: successorLimit, Untouched: untouched,
	})
	switch {
	case err != nil:
	case end.Err == nil || end.Decided || ctx.Err() != nil:
		return end.Code, true
	case !untouched():
		i.Machine.Host.Log.Warn("the newer updater failed after it had changed something; the next run goes on from there", "newer", u.Version,
			"error", end.Err)
		if end.Code == 4 {
			return 4, true
		}
		return 1, true // whatever a crash ends with
	default:
		err = end.Err
	}
	i.Machine.Host.Log.Warn("the newer updater failed before it had changed anything; this one carries on", "newer", u.Version, "own",
		i.BuildVersion, "error", err)
	return 0, false
}

// newerUpdater finds the updater that is to be run in the place of this one. Every command calls it, so it must be quick if there is no
// newer updater.
func (i *Installer) newerUpdater() (versions.Updater, bool) {
	none := versions.Updater{}
	if i.BuildVersion == "" || successor.Current() != nil {
		return none, false
	}
	c, err := i.survey().Config()
	if err != nil {
		return none, false // the command itself will say so
	}
	tree, ok, err := i.Machine.Active(c)
	if !ok || err != nil || isThisProgram(tree.Binary(host.UpdaterName)) {
		return none, false
	}
	u, ok := tree.Updater()
	if !ok || !u.Ours || u.Version == "" || version.Compare(u.Version, i.BuildVersion) <= 0 {
		return none, false
	}
	if err := trust.Executable(u.Path); err != nil {
		i.Machine.Host.Log.Warn("the active version has a newer updater that cannot be trusted; this one carries on", "newer", u.Version,
			"error", err)
		return none, false
	}
	return u, true
}

func isThisProgram(path string) bool {
	self, err1 := os.Stat(procfs.Self)
	other, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(self, other)
}

// footprint is all that an updater changes before anything else.
func (i *Installer) footprint() (string, error) {
	sum := sha256.New()
	for _, path := range []string{i.Machine.Host.Paths.Journal(), i.Machine.Host.Paths.Config(), i.Machine.Host.Paths.Unit()} {
		data, err := regular.Read(path, state.MaxJournalSize, 0)
		if odd, is := errors.AsType[*regular.UnsuitableError](err); is {
			data = []byte(odd.Error()) // the command itself will refuse it, or replace it
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(sum, "%s %v %d\n%s\n", path, err == nil, len(data), data)
	}
	entries, err := os.ReadDir(i.Machine.Host.Paths.LinkDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(i.Machine.Host.Paths.LinkDir, e.Name()))
		fmt.Fprintf(sum, "%q %v %q\n", e.Name(), e.Type(), target)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
