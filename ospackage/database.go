package ospackage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
)

const (
	dpkg      = "/usr/bin/dpkg"
	dpkgQuery = "/usr/bin/dpkg-query"
	rpm       = "/usr/bin/rpm"
)

// dpkgLocks are the locks of apt and dpkg, in the order in which they are taken.
var dpkgLocks = []string{"/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"}

// dpkgLog is the folder of the changes that dpkg has not merged into its database yet, in files whose names are numbers.
const dpkgLog = "/var/lib/dpkg/updates"

// dpkgWasInterrupted looks at the same files as apt.
func dpkgWasInterrupted() bool {
	entries, err := os.ReadDir(dpkgLog)
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.Trim(e.Name(), "0123456789") == ""
	})
}

// rpmFolders are the places of rpm's database: the old one, the current one, and Debian's.
var rpmFolders = []string{"/var/lib/rpm", "/usr/lib/sysimage/rpm", "/root/.rpmdb"}

func rpmLocks() (locks []string) {
	for _, dir := range rpmFolders {
		locks = append(locks, filepath.Join(dir, ".rpm.lock"))
	}
	return locks
}

func installedDebs(ctx context.Context) ([]Package, error) {
	if !exists(dpkgQuery) {
		return nil, nil
	}
	out, err := run(ctx, askLimit, nil, append([]string{dpkgQuery, "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"}, names...)...)
	// It ends with 1 if it does not know one of them.
	if !answered(err, 1) {
		return nil, fmt.Errorf("ask dpkg for packages of the agent: %w", err)
	}
	var found []Package
	for line := range strings.Lines(out) {
		// If a package was removed but not purged, its version and all other words may be missing.
		words := append(strings.Fields(line), "", "")
		if len(words) > 3 && words[0] != "not-installed" {
			found = append(found, Package{Kind: Deb, Name: words[1], Version: words[2]})
		}
	}
	return found, nil
}

// answered reports whether a query ended, with an exit code of no more than most. A query that was killed has said nothing, or half of it.
func answered(err error, most int) bool {
	ended, ok := errors.AsType[*exec.ExitError](err)
	return err == nil || ok && ended.Exited() && ended.ExitCode() <= most
}

func installedRPMs(ctx context.Context) ([]Package, error) {
	// Asking makes a database if there is no database.
	if !exists(rpm) || !hasRPMs() {
		return nil, nil
	}
	out, err := run(ctx, askLimit, nil, append([]string{rpm, "-q", "--qf", "installed %{NAME} %{VERSION}-%{RELEASE}\n"}, names...)...)
	// Its exit code is the number of packages that it does not know.
	if !answered(err, len(names)) {
		return nil, fmt.Errorf("ask rpm for packages of the agent: %w", err)
	}
	var found []Package
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "installed" {
			found = append(found, Package{Kind: RPM, Name: words[1], Version: words[2]})
		}
	}
	return found, nil
}

func hasRPMs() bool {
	for _, dir := range rpmFolders {
		for _, file := range []string{"rpmdb.sqlite", "Packages.db", "Packages"} {
			if exists(filepath.Join(dir, file)) {
				return true
			}
		}
	}
	return false
}

// holderOf names the process that holds a lock of fcntl's on a file, or returns "". It does not take the lock: to do so for a moment could
// make another process fail.
func holderOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return ""
	}
	name := procfs.Host().Name(int(lock.Pid))
	if name == "" {
		return "another program"
	}
	return fmt.Sprintf("%s (process %d)", name, lock.Pid)
}
