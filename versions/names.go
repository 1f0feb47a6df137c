package versions

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"teleport-update/internal/regular"
	"teleport-update/internal/version"
	"teleport-update/versions/archive"
)

const (
	partialName  = "partial"
	originalName = "original"
	rollbackName = "rollback"
	editionName  = "edition"
	digestName   = "sha256"
	// signatureName is a file of the record of a release that was fetched with a signature.
	signatureName = "signature"
	originName    = "origin" // in the place of sha256, see Adopt
	manifestName  = "manifest"
	backupName    = "backup"
	binName       = archive.Programs
	etcName       = "etc"
	unitName      = archive.Unit
	agentName     = "teleport"
	updaterName   = "teleport-update"
)

// A kept download in Store.PartialDir is a file named after the digest of its tarball, with the
// first of these suffixes. Once it is worth keeping, its partInfo lies next to it, under the name
// with the second suffix.
const (
	PartSuffix = ".part"
	InfoSuffix = ".json"
)

// Release names a release that can be fetched.
type Release = version.Release

// folders returns the two names that a release may have on disk: the plain one and the one for a
// version that exists in another edition already.
func folders(r Release) (plain, qualified string) {
	return r.Version, r.Version + "_" + string(r.Edition)
}

// parseFolder reads VERSION or VERSION_EDITION. The edition is empty when the
// name does not say it.
func parseFolder(name string) (string, version.Edition, bool) {
	v, word, qualified := strings.Cut(name, "_")
	if parsed, err := version.Parse(v); err != nil || parsed != v {
		return "", "", false
	}
	if !qualified {
		return v, "", true
	}
	e, err := version.ParseEdition(word)
	return v, e, err == nil
}

// IsDigest reports whether s is a SHA-256 as we write it: 64 hex digits in lower case.
func IsDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && strings.ToLower(s) == s
}

// incompleteError says why a folder with a release's name is not a release.
type incompleteError struct{ reason string }

func (e *incompleteError) Error() string { return e.reason }

func isIncomplete(err error) bool {
	_, ok := errors.AsType[*incompleteError](err)
	return ok
}

// readMarker reads a file of one word. A file that is missing, too long or not
// regular makes the folder incomplete.
func readMarker(path string, limit int64) (string, error) {
	data, err := regular.Read(path, limit, regular.NoLink)
	if _, unsuitable := errors.AsType[*regular.UnsuitableError](err); unsuitable {
		return "", &incompleteError{filepath.Base(path) + " was changed after it was installed"}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", &incompleteError{filepath.Base(path) + " is missing"}
	}
	return strings.TrimSuffix(string(data), "\n"), err
}
