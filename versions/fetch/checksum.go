package fetch

import (
	"errors"
	"fmt"
	"strings"

	"teleport-update/versions"
)

const checksumSuffix = ".sha256"

// maxChecksum is how much of a checksum file is read, in bytes.
const maxChecksum = 4 << 10

// ChecksumError says that a tarball is not the one that was announced: damaged
// on the way or at the server, or exchanged.
type ChecksumError struct {
	URL  string // as it may be logged
	Want string // the announced SHA-256, 64 lower-case hex digits
	Got  string // that of what came
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s does not match its checksum: want sha256 %s, got %s; it was damaged or replaced, and nothing of it was kept",
		e.URL, e.Want, e.Got)
}

// parseChecksum reads a checksum file: 64 hex digits in either case, then the
// end or anything that is not one more letter or digit (a SHA-512, say).
func parseChecksum(data []byte) (string, error) {
	text := string(data)
	digest := strings.ToLower(text[:min(len(text), 64)])
	if !versions.IsDigest(digest) {
		return "", fmt.Errorf("the checksum file does not begin with a SHA-256 (64 hex digits) but with %.40q%s", text, describeChecksum(text))
	}
	if len(text) > 64 && isAlphanumeric(text[64]) {
		return "", errors.New("the checksum file begins with more than 64 hex digits; only SHA-256 is taken")
	}
	return digest, nil
}

func isAlphanumeric(c byte) bool {
	digit := '0' <= c && c <= '9'
	letter := 'a' <= c|0x20 && c|0x20 <= 'z'
	return digit || letter
}
