package packaging

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"teleport-update/internal/version"
)

// Commit returns the version and the time of what is checked out in a folder:
// the version of the commit's tag, or one that is older than every release and
// grows with the commit's time.
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
	if tag, err := git("describe", "--tags", "--exact-match", "--match", "v[0-9]*"); err == nil {
		v = strings.TrimPrefix(tag, "v")
	} else {
		hash, err := git("rev-parse", "--short=12", "HEAD")
		if err != nil {
			return "", time.Time{}, err
		}
		v = fmt.Sprintf("0.0.0-git%s.g%s", date.Format("20060102150405"), hash)
	}
	changes, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return "", time.Time{}, err
	}
	if changes != "" {
		v += ".dirty"
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

// packageVersion sorts for dpkg and rpm as semver does: "~" comes before nothing,
// and a "-" would begin the package's own revision.
func packageVersion(v string) string {
	v = strings.Replace(v, "-", "~", 1)
	return strings.ReplaceAll(v, "-", ".")
}
