// Package ospackage finds and removes the packages that brought an agent before the updater did. It runs dpkg and rpm, on which apt, dnf,
// yum and zypper are built.
//
// apt and dnf themselves are not run. They refuse to work if dpkg was ever interrupted or a repository cannot be reached, remove packages
// that depend on a package along with it, and run hooks of administrators, needrestart among them. dpkg and rpm remove the one package, or
// say why not.
//
// A removal runs behind a fence (see Fence), so that it cannot remove files that no longer belong to the package, even if it is cut off.
package ospackage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"teleport-update/internal/trust"
)

// names are the packages that carry an agent, and before them the package of teleport-upgrade, which depends on them: it goes first.
var names = []string{"teleport-ent-updater", "teleport", "teleport-ent", "teleport-ent-fips", "teleport-fips"}

const (
	askLimit = 30 * time.Second
	// removeLimit ends maintainer scripts that hang.
	removeLimit = 10 * time.Minute
	stopLimit   = 30 * time.Second
)

// A Kind of package names the program that has its database.
type Kind = string

const (
	Deb Kind = "deb" // of dpkg
	RPM Kind = "rpm" // of rpm
)

// Package is a package of the agent that is installed, or that has left configuration which a later purge would remove.
type Package struct {
	Kind    Kind   `json:"kind" yaml:"kind"`
	Name    string `json:"name" yaml:"name"`
	Version string `json:"version" yaml:"version"` // as in its database, with the packager's release
}

func (p Package) String() string { return p.Name + " " + p.Version }

// LockedError means that another program is at work with packages. Nothing was
// changed; it is worth trying again later.
type LockedError struct{ Holder string } // in words: the program and its process

func (e *LockedError) Error() string {
	return fmt.Sprintf("packages cannot be changed now: %s is at work with them", e.Holder)
}

// Installed lists the packages of the agent on this host, in the order in which they can be removed; empty if there is neither dpkg nor
// rpm.
func Installed(ctx context.Context) ([]Package, error) {
	debs, err1 := installedDebs(ctx)
	rpms, err2 := installedRPMs(ctx)
	all := append(debs, rpms...)
	slices.SortStableFunc(all, func(a, b Package) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	return all, errors.Join(err1, err2)
}

// Files lists the paths that a package has on the host.
func (p Package) Files(ctx context.Context) ([]string, error) {
	argv := []string{dpkgQuery, "-L", p.Name}
	if p.Kind == RPM {
		argv = []string{rpm, "-ql", p.Name}
	}
	out, err := run(ctx, askLimit, nil, argv...)
	if err != nil {
		return nil, fmt.Errorf("list the files of package %s: %w", p, err)
	}
	var files []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "/") {
			files = append(files, line)
		}
	}
	return files, nil
}

// Locked returns a LockedError if another program holds the lock that a removal
// of this package needs.
func (p Package) Locked() error {
	locks := dpkgLocks
	if p.Kind == RPM {
		locks = rpmLocks()
	}
	for _, path := range locks {
		if holder := holderOf(path); holder != "" {
			return &LockedError{Holder: holder}
		}
	}
	return nil
}

// Purge removes the package with its configuration, behind the fence. systemd gets no request of its maintainer scripts: the agent no
// longer belongs to the package. A removal that was cut off may be begun again.
func (p Package) Purge(ctx context.Context, f Fence) error {
	if err := p.Locked(); err != nil {
		return err
	}
	argv := []string{dpkg, "--purge", "--force-remove-reinstreq", p.Name}
	if p.Kind == RPM {
		argv = []string{rpm, "--erase", p.Name}
	}
	if _, err := run(ctx, removeLimit, &f, argv...); err != nil {
		if p.Kind == Deb && strings.Contains(err.Error(), "lock was locked by another process") {
			return &LockedError{Holder: "another program"}
		}
		return fmt.Errorf("remove package %s: %w", p, err)
	}
	return nil
}

// Settle completes the removal of a package that was cut off so late that the package counts as gone. dpkg may not have merged its log of
// changes into its database yet: it does so at its next run, but apt refuses to work until somebody runs it.
func (p Package) Settle(ctx context.Context, f Fence) error {
	if p.Kind != Deb || !dpkgWasInterrupted() {
		return nil
	}
	if err := p.Locked(); err != nil {
		return nil // another dpkg is at work, which does it
	}
	// If the package is not here, nothing is removed; a package that just came is behind the fence like any other.
	if _, err := run(ctx, removeLimit, &f, dpkg, "--purge", p.Name); err != nil {
		return fmt.Errorf("have dpkg end the removal of %s: %w", p, err)
	}
	return nil
}

// run runs a program of the system in a clean environment, in a session of its own: a signal that interrupts the updater does not interrupt
// a removal.
func run(ctx context.Context, limit time.Duration, f *Fence, argv ...string) (string, error) {
	if err := trust.Executable(argv[0]); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not end within %v", limit))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = environment
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	start := cmd.Start
	if f != nil {
		start = func() error { return f.behind(cmd.Start) }
	}
	err := start()
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, excerpt(stderr.String()))
	}
	return stdout.String(), nil
}

// environment is the environment of all programs that run starts. SYSTEMD_OFFLINE makes systemctl behave as in a chroot: it stops nothing
// and starts nothing (systemd's docs/ENVIRONMENT.md). rpm on Debian has its database in the home folder.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C",
	"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", "SYSTEMD_OFFLINE=1",
}

func excerpt(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = "…" + s[len(s)-400:]
	}
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
