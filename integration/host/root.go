package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// DefaultSuite is the Debian release that hosts run.
const DefaultSuite = "bookworm"

// Backports is DefaultSuite with systemd 254, which reboots softly and does not count how often.
const Backports = "bookworm-backports"

// packages is what a root has beyond Debian's minimum. procps has pkill, which
// the agent's unit reloads with; sqlite3 is another SQLite than the updater's.
var packages = []string{"systemd", "systemd-sysv", "dbus", "ca-certificates", "procps", "sqlite3"}

// masked are units that a test host has no use for: they would slow down the
// boot or run in the middle of a test.
var masked = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
	"systemd-tmpfiles-clean.timer", "getty.target", "console-getty.service", "systemd-timesyncd.service", "systemd-networkd.service",
	"systemd-resolved.service",
}

// maskedGenerators run at each boot and at each reload of systemd, and find nothing in
// a test host: together they were a tenth of all that tests of hosts compute. The one of
// /etc/fstab stays.
var maskedGenerators = []string{
	"systemd-cryptsetup-generator", "systemd-debug-generator", "systemd-getty-generator", "systemd-gpt-auto-generator",
	"systemd-hibernate-resume-generator", "systemd-integritysetup-generator", "systemd-rc-local-generator", "systemd-run-generator",
	"systemd-system-update-generator", "systemd-sysv-generator", "systemd-veritysetup-generator",
}

// fromBackports has apt take systemd, and nothing else, from backports.
const fromBackports = `sed -i 's/\(.*\) ` + DefaultSuite + ` \(.*\)/&\n\1 ` + Backports + ` \2/' "$1/etc/apt/sources.list" &&
	printf '%s\n' 'Package: src:systemd' 'Pin: release n=` + Backports + `' 'Pin-Priority: 500' >"$1/etc/apt/preferences.d/systemd"`

// journald keeps the journal across reboots and drops no line.
const journald = "[Journal]\nStorage=persistent\nSystemMaxUse=64M\nRateLimitIntervalSec=0\n"

// Root returns the folder of the file system that hosts of that suite, with more
// packages if these are given, are built on, and makes it if it is not there: that
// takes a Debian mirror and some seconds, once. It must not be changed.
func Root(ctx context.Context, suite string, more ...string) (string, error) {
	module, err := Module()
	if err != nil {
		return "", err
	}
	roots := filepath.Join(module, "build", "roots")
	if err := os.MkdirAll(roots, 0o755); err != nil {
		return "", err
	}
	dir := rootDir(roots, suite, more)
	// A lock for each: who needs another root does not wait for this one.
	unlock, err := lock(filepath.Join(roots, "."+filepath.Base(dir)+".lock"), unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	temp := filepath.Join(roots, ".making-"+filepath.Base(dir))
	defer os.RemoveAll(temp)
	if err := removeHalfMade(temp); err != nil {
		return "", err
	}
	if err := makeRoot(ctx, roots, suite, more, temp); err != nil {
		return "", fmt.Errorf("make a root of Debian %s: %w", suite, err)
	}
	return dir, os.Rename(temp, dir)
}

// rootDir is where a root is kept, by all that it is made of.
func rootDir(roots, suite string, more []string) string {
	madeOf := fmt.Append(nil, suite, append(slices.Clone(packages), more...), masked, maskedGenerators, journald)
	if suite == Backports {
		madeOf = append(madeOf, fromBackports...)
	}
	recipe := sha256.Sum256(madeOf)
	return filepath.Join(roots, fmt.Sprintf("%s-%x", suite, recipe[:4]))
}

// removeHalfMade removes what a run left that was killed: mmdebstrap has the machine's /proc,
// /sys and /dev mounted there meanwhile, which are not to be removed with it.
func removeHalfMade(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(mounts)), "\n")) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, real+"/") {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", at, err)
			}
		}
	}
	return os.RemoveAll(dir)
}

// makeRoot makes the root of a suite in dir. One with more packages begins as a copy of
// the one without them, or without the last of them if that is there: this takes a
// fifth of what a whole Debian takes.
func makeRoot(ctx context.Context, roots, suite string, more []string, dir string) error {
	install, how := packages, []string{"--variant=minbase"}
	if len(more) > 0 {
		had, err := copyRoot(ctx, roots, suite, more, dir)
		if err != nil {
			return err
		}
		install, how = more[had:], []string{"--variant=custom", "--skip=check/empty"}
	}
	release := suite
	if suite == Backports {
		release, how = DefaultSuite, append(how, "--setup-hook="+fromBackports)
	}
	args := append(how, "--include="+strings.Join(install, ","), "--aptopt=Acquire::Retries \"3\"", release, dir)
	if out, err := exec.CommandContext(ctx, "mmdebstrap", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", err, tail(string(out), 40))
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	// mmdebstrap takes these from the machine it runs on.
	for _, name := range []string{"etc/hostname", "etc/resolv.conf"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, unit := range masked {
		if err := os.Symlink("/dev/null", filepath.Join(dir, "etc/systemd/system", unit)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, d := range []string{"etc/systemd/journald.conf.d", "etc/systemd/system-generators", "usr/local/lib/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, generator := range maskedGenerators {
		if err := os.Symlink("/dev/null", filepath.Join(dir, "etc/systemd/system-generators", generator)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "etc/systemd/journald.conf.d/test.conf"), []byte(journald), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "etc/machine-id"), []byte("uninitialized\n"), 0o444)
}

// copyRoot copies a root that has the first of the packages, and returns how many. The
// devices are left out: mmdebstrap makes them.
func copyRoot(ctx context.Context, roots, suite string, more []string, dir string) (had int, err error) {
	base := ""
	for had = len(more) - 1; had > 0; had-- {
		base = rootDir(roots, suite, more[:had])
		if _, err := os.Stat(base); err == nil {
			break
		}
	}
	if had == 0 {
		if base, err = Root(ctx, suite); err != nil {
			return 0, err
		}
	}
	if out, err := exec.CommandContext(ctx, "cp", "--archive", "--reflink=auto", base, dir).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("copy %s: %w\n%s", base, err, out)
	}
	devices, err := filepath.Glob(filepath.Join(dir, "dev", "*"))
	if err != nil {
		return 0, err
	}
	for _, device := range devices {
		if err := os.RemoveAll(device); err != nil {
			return 0, err
		}
	}
	return had, nil
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
