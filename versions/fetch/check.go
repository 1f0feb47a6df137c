package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"

	"teleport-update/versions/archive"
)

// CheckArchive names everything for which hosts would refuse the tarball at path:
// each rule of package archive that it breaks, and, as the rule "checksum", a
// checksum file beside it that is not its own. One without a checksum file is taken,
// for find servers make that themselves. The error says that the tarball could not be
// read; the violations are those that were found by then.
func CheckArchive(path string, limits archive.Limits) ([]*archive.Violation, error) {
	// It is opened as hosts open it. A file is not waited for.
	ctx := context.Background()
	m := newMirror(&url.URL{Scheme: "file", Path: path}, reach{})
	p, err := m.source.open(ctx, m.place, 0, validator{})
	if err != nil {
		return nil, fmt.Errorf("check the tarball: %w", err)
	}
	defer p.body.Close()
	sum := sha256.New()
	found, err := archive.Check(io.TeeReader(p.body, sum), limits)
	if err == nil {
		_, err = io.Copy(sum, p.body) // what the check had no need of
	}
	if err != nil {
		return found, fmt.Errorf("check the tarball: %w", err)
	}
	wrong, err := checkAnnounced(ctx, m, hex.EncodeToString(sum.Sum(nil)))
	if wrong != "" {
		found = append(found, &archive.Violation{Rule: "checksum", Text: wrong})
	}
	return found, err
}

// checkAnnounced says what is wrong with the checksum file beside a tarball that has this
// digest; empty where nothing is, or no such file is there.
func checkAnnounced(ctx context.Context, m mirror, got string) (wrong string, err error) {
	want, err := m.checksum(ctx)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if text, ok := isUnusable(err); ok {
		return text, nil
	}
	if err != nil || want == got {
		return "", err
	}
	return fmt.Sprintf("its checksum file says sha256 %s, and it has %s", want, got), nil
}
