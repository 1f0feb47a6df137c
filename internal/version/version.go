// Package version reads and orders release versions.
//
// A version here is a full semantic version without the leading "v", as in
// 15.1.1 or 16.0.0-rc.1+build5. The characters of a semantic version
// make it safe as one path element: no separator, no leading dot, never empty.
package version

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// MaxLength is the longest version taken, in bytes. It keeps a hostile answer
// out of file names and log lines; real versions are under 40.
const MaxLength = 64

// Parse returns s without a leading "v", or an error when s is not a full
// semantic version (major, minor and patch all present).
func Parse(s string) (string, error) {
	v := strings.TrimPrefix(s, "v")
	if v == "" {
		return "", fmt.Errorf("the version is empty")
	}
	if len(v) > MaxLength {
		return "", fmt.Errorf("version %.20q… is longer than %d characters", v, MaxLength)
	}
	// Canonical fills in missing parts, and leaves the build out.
	if semver.Canonical("v"+v)+semver.Build("v"+v) != "v"+v {
		return "", fmt.Errorf("version %q is not a semantic version (want MAJOR.MINOR.PATCH)", s)
	}
	return v, nil
}

// Compare orders two parsed versions: -1 when a is older than b, 1 when it is
// newer, 0 when they are the same release. Build metadata does not count, as
// semantic versioning says.
func Compare(a, b string) int {
	return semver.Compare("v"+a, "v"+b)
}
