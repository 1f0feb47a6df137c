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
	"teleport-update/versions/signature"
)

// CheckArchive names every reason for which hosts would refuse the tarball at path: each broken
// rule of package archive, and, as the rule "checksum", a checksum file beside the tarball that
// does not match it. A missing checksum file breaks no rule: find servers make it themselves. With
// keys, the tarball breaks the rule "signature" if its signature is missing or none of the keys
// made it. After an error, the tarball could not be read; the violations are those found before.
func CheckArchive(path string, limits archive.Limits, keys ...signature.Key) ([]*archive.Violation, error) {
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
		_, err = io.Copy(sum, p.body) // the bytes that the check did not need
	}
	if err != nil {
		return found, fmt.Errorf("check the tarball: %w", err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	wrong, err := checkAnnounced(ctx, m, digest)
	if wrong != "" {
		found = append(found, &archive.Violation{Rule: "checksum", Text: wrong})
	}
	if err != nil || len(keys) == 0 {
		return found, err
	}
	if wrong, err = checkSigned(ctx, m, digest, keys); wrong != "" {
		found = append(found, &archive.Violation{Rule: "signature", Text: wrong})
	}
	return found, err
}

// checkSigned says what is wrong with the signature beside a tarball with this digest.
func checkSigned(ctx context.Context, m mirror, digest string, keys []signature.Key) (wrong string, err error) {
	file, more, err := m.sibling(signature.Suffix).read(ctx, signature.MaxFile)
	switch {
	case errors.Is(err, ErrNotFound):
		return "there is no signature beside it", nil
	case err != nil:
		return "", err
	case more:
		return fmt.Sprintf("its signature file has more than %d bytes", signature.MaxFile), nil
	}
	if _, err := signature.Verify(keys, digest, file); err != nil {
		return "its signature file: " + err.Error(), nil
	}
	return "", nil
}

// checkAnnounced says what is wrong with the checksum file beside a tarball with this digest;
// empty if nothing is wrong, or there is no such file.
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
