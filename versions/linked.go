package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func beforeOf(path string) (Before, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Before{}, nil
	case err != nil:
		return Before{}, err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return Before{Link: target}, err
	case info.Mode().IsRegular():
		digest, err := digestOf(path)
		return Before{Saved: filepath.Base(path) + "-" + digest[:min(len(digest), 16)]}, err
	case info.IsDir():
		return Before{}, fmt.Errorf("%s is a folder, and a link must go there: move it away", path)
	}
	return Before{}, fmt.Errorf("%s is neither a file nor a link, and a link must go there: move it away", path)
}

func digestOf(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// linksInto returns the links of a folder that lead into versionsDir, whether
// what they lead to exists or not. A folder that is not there has none.
func linksInto(dir, versionsDir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var links []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		path := filepath.Join(dir, e.Name())
		name, err := versionOfLink(path, versionsDir)
		if err != nil {
			return nil, err
		}
		if name != "" {
			links = append(links, path)
		}
	}
	return links, nil
}

// versionOfLink returns the entry of versionsDir that a link leads into, by
// what it says and by where it ends; empty for a link that leads elsewhere.
func versionOfLink(path, versionsDir string) (string, error) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	return versionOfTarget(path, target, versionsDir)
}

// versionOfTarget is versionOfLink for a link that need not be at path any more.
func versionOfTarget(path, target, versionsDir string) (string, error) {
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	if name := entryOf(target, versionsDir); name != "" {
		return name, nil
	}
	// The folder may have two names, of which the link uses the other.
	end, err := filepath.EvalSymlinks(target)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EIO) {
		return "", err
	}
	if err != nil {
		return "", nil // dangling, or a circle: not into anything that exists
	}
	real, err := filepath.EvalSymlinks(versionsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return entryOf(end, real), err
}

// entryOf returns the first name of path below dir, empty for a path that is
// not below it.
func entryOf(path, dir string) string {
	rel, err := filepath.Rel(dir, filepath.Clean(path))
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	name, _, _ := strings.Cut(rel, "/")
	return name
}
