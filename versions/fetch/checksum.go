package fetch

import (
	"fmt"
	"path"
	"strings"

	"teleport-update/versions"
)

const checksumSuffix = ".sha256"

// maxChecksum is the largest part of a checksum file that is read, in bytes.
const maxChecksum = 4 << 10

// ChecksumError means that a tarball does not match its announced checksum: it was damaged on the
// way or at the server, or exchanged.
type ChecksumError struct {
	URL  string // as it may be logged
	Want string // the announced SHA-256, 64 lower-case hex digits
	Got  string // the SHA-256 of the received bytes
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s does not match its checksum: want sha256 %s, got %s; it was damaged or replaced, and nothing of it was kept",
		e.URL, e.Want, e.Got)
}

// parseChecksum reads the checksum file of a tarball: 64 hex digits in either case, then the end or any character
// except a letter or digit (a SHA-512 has more digits). In a list, as sha256sum writes it for several files, the
// line with the tarball's name counts, and the first one if no line has it: mirrors have tarballs under other
// names. sha256sum begins a line with a backslash if it had to escape the name in it, as with a path of Windows.
func parseChecksum(data []byte, tarball string) (string, error) {
	text := string(data)
	if digest, listed := inList(text, tarball); listed {
		return digest, nil
	}
	text = strings.TrimPrefix(text, escaped)
	digest := strings.ToLower(text[:min(len(text), 64)])
	if !versions.IsDigest(digest) {
		return "", fmt.Errorf("the checksum file does not begin with a SHA-256 (64 hex digits) but with %.40q%s", text, describeChecksum(text))
	}
	if len(text) > 64 && isAlphanumeric(text[64]) {
		what := lengths[hexDigits(text)]
		if what != "" {
			what = " (that is the length of " + what + ")"
		}
		return "", fmt.Errorf("the checksum file begins with more than 64 hex digits%s; only SHA-256 is taken", what)
	}
	return digest, nil
}

// inList returns the digest of a file in a list that begins with a digest.
func inList(text, name string) (digest string, ok bool) {
	for line := range strings.Lines(text) {
		line, isEscaped := strings.CutPrefix(strings.TrimRight(line, "\r\n"), escaped)
		digest := strings.ToLower(line[:min(len(line), 64)])
		if !versions.IsDigest(digest) {
			return "", false
		}
		file := cutMark(line[64:])
		if isEscaped {
			file = strings.ReplaceAll(file, `\`, "/")
		}
		if file != "" && path.Base(file) == name {
			return digest, true
		}
	}
	return "", false
}

// escaped begins a line of sha256sum in which backslashes and line ends of the name are escaped.
const escaped = `\`

// cutMark removes the characters that programs write before a name: spaces or a tab, and an asterisk for a binary file. It
// returns "" if no name follows.
func cutMark(rest string) string {
	file := strings.TrimLeft(rest, " \t")
	if file == rest {
		return ""
	}
	return strings.TrimPrefix(file, "*")
}

func isAlphanumeric(c byte) bool {
	digit := '0' <= c && c <= '9'
	letter := 'a' <= c|0x20 && c|0x20 <= 'z'
	return digit || letter
}
