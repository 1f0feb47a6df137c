package fetch

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// checksumForm is a form of checksum files that other programs and servers write.
type checksumForm struct{ begins, says string }

const (
	powerShells   = "it is in UTF-16, as PowerShell's `>` writes: save it in ASCII"
	anotherDigest = "that is another digest than SHA-256: write it with `sha256sum`"
)

var checksumForms = []checksumForm{
	{"\ufeff", "a byte order mark stands before it: save the file without one"},
	{"\xff\xfe", powerShells},
	{"\xfe\xff", powerShells},
	{"SHA256 (", "that is the form of BSD's tools: write it with `sha256sum`"},
	{"SHA256(", "that is the form of openssl: write it with `sha256sum`"},
	{"SHA2-256(", "that is the form of openssl: write it with `sha256sum`"},
	{"sha256:", "the digest alone is wanted, without sha256: before it"},
	{"sha256-", "the digest in hex is wanted, without sha256- before it"},
	{"md5", anotherDigest},
	{"sha1", anotherDigest},
	{"sha2-224", anotherDigest},
	{"sha2-384", anotherDigest},
	{"sha2-512", anotherDigest},
	{"sha224", anotherDigest},
	{"sha384", anotherDigest},
	{"sha512", anotherDigest},
	{"sha3-", anotherDigest},
	{"blake2", anotherDigest},
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

// describeChecksum describes in a few words a file that does not begin with a digest, and says how
// to correct it; it begins with ": ", and is empty for an unknown form.
func describeChecksum(text string) string {
	start := strings.TrimSpace(text)
	switch {
	case start == "":
		return ": the file is empty"
	case strings.HasPrefix(start, "Algorithm") && strings.Contains(start, "Hash"):
		return ": that is the table of PowerShell's Get-FileHash: the value of Hash alone is wanted"
	}
	for _, f := range checksumForms {
		if len(text) >= len(f.begins) && strings.EqualFold(text[:len(f.begins)], f.begins) {
			return ": " + f.says
		}
	}
	digits := hexDigits(text)
	switch enough, ends := digits >= 16, digits == len(text) || !isAlphanumeric(text[digits]); {
	case enough && ends && lengths[digits] != "":
		return ": that is the length of " + lengths[digits]
	case enough && ends:
		return fmt.Sprintf(": it has only %d hex digits", digits)
	}
	first, _, _ := strings.Cut(text, "\n")
	words := strings.FieldsFunc(first, func(r rune) bool { return r >= utf8.RuneSelf || !isAlphanumeric(byte(r)) })
	switch word, _, _ := strings.Cut(strings.TrimRight(first, "\r"), " "); {
	case slices.ContainsFunc(words, func(word string) bool { return len(word) == 64 && hexDigits(word) == 64 }):
		return ": the digest has to come first in its line, and the name after it, as `sha256sum` writes them"
	case isBase64(word):
		return ": that is base64: the digest in hex is wanted, as `sha256sum` writes it"
	}
	return ""
}

// lengths are the numbers of hex digits of other digests.
var lengths = map[int]string{32: "an MD5", 40: "a SHA-1", 56: "a SHA-224", 96: "a SHA-384", 128: "a SHA-512"}

// hexDigits returns how many hex digits, of either case, a text begins with.
func hexDigits(text string) int {
	rest := strings.TrimLeft(text, "0123456789abcdefABCDEF")
	return len(text) - len(rest)
}

// isBase64 reports whether a word is a SHA-256, or a SHA-512, in base64.
func isBase64(word string) bool {
	digest, err := base64.StdEncoding.DecodeString(word)
	return err == nil && (len(digest) == 32 || len(digest) == 64)
}
