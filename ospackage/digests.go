package ospackage

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"strings"

	"teleport-update/internal/regular"
)

// Digests returns the digests of the package's files in the package's database, by path: MD5 or SHA-256, in hexadecimal. dpkg --verify and
// rpm -V compare with them. Files that people configure, links and folders are not among them.
func (p Package) Digests(ctx context.Context) (map[string]string, error) {
	argv := []string{dpkgQuery, "--control-show", p.Name, "md5sums"}
	if p.Kind == RPM {
		argv = []string{rpm, "-q", "--qf", "[%{FILEDIGESTS}  %{FILENAMES}\n]", p.Name}
	}
	out, err := run(ctx, askLimit, nil, argv...)
	if err != nil {
		return nil, fmt.Errorf("read the checksums of package %s: %w", p, err)
	}
	digests := make(map[string]string)
	for line := range strings.Lines(out) {
		digest, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if _, err := newHash(digest); ok && err == nil {
			digests["/"+strings.TrimPrefix(path, "/")] = digest
		}
	}
	if len(digests) == 0 {
		return nil, fmt.Errorf("package %s has no checksums", p)
	}
	return digests, nil
}

// BroughtUnit reports whether a package with these digests of Digests brought the content of a unit file, under that name. The folder may
// be another one: /lib may be a link to /usr/lib, and packages of Teleport since 17.3 have their unit below /opt/teleport/system, and copy
// it.
func BroughtUnit(digests map[string]string, path string) bool {
	for brought, digest := range digests {
		if strings.HasSuffix(brought, "/systemd/system/"+filepath.Base(path)) && CopyWhole(io.Discard, path, digest) == nil {
			return true
		}
	}
	return false
}

// CopyWhole copies a file that must have a digest of Digests. If it has another digest, CopyWhole returns an error and the copy is worth
// nothing.
func CopyWhole(w io.Writer, path, digest string) error {
	sum, err := newHash(digest)
	if err != nil {
		return err
	}
	f, _, err := regular.Open(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(io.MultiWriter(w, sum), f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return fmt.Errorf("%s is not as its package brought it", path)
	}
	return nil
}

func newHash(digest string) (hash.Hash, error) {
	switch len(digest) {
	case 2 * md5.Size:
		return md5.New(), nil
	case 2 * sha256.Size:
		return sha256.New(), nil
	}
	return nil, errors.New("it has no checksum that is known here")
}
