package fetch

import (
	"fmt"
	"strings"

	"teleport-update/versions"
)

// checksumForm is what other programs and servers give for a checksum.
type checksumForm struct{ begins, says string }

var checksumForms = []checksumForm{
	{"\ufeff", "a byte order mark stands before it: save the file without one"},
	{"SHA256 (", "that is the form of BSD's tools: write it with `sha256sum`"},
	{"SHA256(", "that is the form of openssl: write it with `sha256sum`"},
	{"SHA2-256(", "that is the form of openssl: write it with `sha256sum`"},
	{"sha256:", "the digest alone is wanted, without sha256: before it"},
	{"sha256-", "the digest in hex is wanted, without sha256- before it"},
	{"SHA256 hash of", "that is what certutil prints: write it with `sha256sum`"},
	{"{", "that is JSON: the digest alone is wanted"},
	{"[", "that is JSON: the digest alone is wanted"},
	{"\"", "the digest alone is wanted, without quotes"},
	{"#", "a comment stands before it: the digest has to come first"},
	{"-----BEGIN PGP", "that is a signed message: the digest alone is wanted"},
	{"<", "that is a web page: did something other than the mirror answer?"},
	{"version https://git-lfs", "that is a pointer of Git LFS: the mirror has not got the file itself"},
	{"PK\x03\x04", "that is a zip file"},
	{"\x1f\x8b", "that is compressed: the mirror has to serve it as plain text"},
	{" ", "there is space before it"},
	{"\n", "there is an empty line before it"},
	{"\r", "there is an empty line before it"},
}

// describeChecksum says in a few words what a file is that does not begin with a digest, and
// what to do; it begins with ": ", and is empty if nobody can tell.
func describeChecksum(text string) string {
	if strings.TrimSpace(text) == "" {
		return ": the file is empty"
	}
	for _, f := range checksumForms {
		if len(text) >= len(f.begins) && strings.EqualFold(text[:len(f.begins)], f.begins) {
			return ": " + f.says
		}
	}
	digits := 0
	for digits < len(text) && versions.IsDigest(strings.Repeat(strings.ToLower(text[digits:digits+1]), 64)) {
		digits++
	}
	if digits < 16 || digits < len(text) && isAlphanumeric(text[digits]) {
		return ""
	}
	switch digits {
	case 32:
		return ": that is the length of an MD5"
	case 40:
		return ": that is the length of a SHA-1"
	}
	return fmt.Sprintf(": it has only %d hex digits", digits)
}
