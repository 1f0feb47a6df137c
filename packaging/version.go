package packaging

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"teleport-update/internal/version"
)

// versionFile has the version of this source's release. For a source before a release, it has the release's
// version with developing at its end. It is a file and not a tag, since clones and archives have no tags.
const (
	versionFile = "packaging/VERSION"
	developing  = "-dev"
)

// Commit returns the version and the time of the checkout in a folder. The version is a
// release's or, between releases, one that is newer than the last release, older than
// the next one, and grows with the commit's time.
func Commit(ctx context.Context, dir string) (v string, date time.Time, err error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	seconds, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return "", time.Time{}, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return "", time.Time{}, err
	}
	date = time.Unix(n, 0).UTC()
	hash, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", time.Time{}, err
	}
	changes, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return "", time.Time{}, err
	}
	named, err := os.ReadFile(filepath.Join(dir, versionFile))
	if err != nil {
		return "", time.Time{}, err
	}
	v = strings.TrimSpace(string(named))
	if next, ok := strings.CutSuffix(v, developing); ok {
		v = fmt.Sprintf("%s-git%s.g%s", next, date.Format("20060102150405"), hash)
	}
	if changes != "" && strings.Contains(v, "-") {
		v += ".dirty"
	} else if changes != "" {
		v += "-dirty"
	}
	return v, date, checkVersion(v)
}

func checkVersion(v string) error {
	parsed, err := version.Parse(v)
	if err == nil && parsed != v {
		err = fmt.Errorf("write %q", parsed)
	}
	if err != nil {
		return fmt.Errorf("version %q of the packages: %w", v, err)
	}
	return nil
}

// packageVersion returns a version that dpkg and rpm sort like semver: "~" comes before
// nothing, and a "-" would begin the package's own revision.
func packageVersion(v string) string {
	v = strings.Replace(v, "-", "~", 1)
	return strings.ReplaceAll(v, "-", ".")
}
