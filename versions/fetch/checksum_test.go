package fetch

import (
	"strings"
	"testing"
)

func TestParseChecksum(t *testing.T) {
	digest, other := digestHex([]byte("x")), digestHex([]byte("another file"))
	for name, tc := range map[string]struct {
		in string
		ok bool
	}{
		"as sha256sum writes it":               {digest + "  teleport.tar.gz\n", true},
		"in binary mode":                       {digest + " *teleport.tar.gz\n", true},
		"the digest alone":                     {digest, true},
		"the digest and a line end":            {digest + "\r\n", true},
		"in capitals":                          {strings.ToUpper(digest) + "\n", true},
		"followed by anything":                 {digest + ", signed by somebody\x00\xff", true},
		"a list that begins with another file": {other + "  teleport.deb\n" + digest + "  teleport.tar.gz\n", true},
		"a list of files in folders":           {other + "  ./arm64/teleport.deb\r\n" + digest + " *./amd64/teleport.tar.gz\r\n", true},
		"a list without its name":              {digest + "  linux-amd64.tar.gz\n" + other + "  linux-arm64.tar.gz\n", true},
		"a list, and a comment in it":          {digest + "  other.tar.gz\n# old ones\n" + other + "  teleport.tar.gz\n", true},
		"a list with one space":                {other + " teleport.deb\n" + digest + " teleport.tar.gz\n", true},
		"a list with tabs":                     {other + "\tteleport.deb\n" + digest + "\tteleport.tar.gz\n", true},
		"an escaped line":                      {`\` + digest + ` *C:\\mirror\\teleport.tar.gz` + "\r\n", true},
		"an escaped line in a list":            {other + "  teleport.deb\n" + `\` + digest + `  new\nfolder\\teleport.tar.gz` + "\n", true},
		"a list after an escaped line":         {`\` + other + `  a\\b.deb` + "\n" + digest + "  teleport.tar.gz\n", true},
		"two backslashes":                      {`\\` + digest, false},
		"nothing":                              {"", false},
		"too short":                            {digest[:63], false},
		"too short and a name":                 {digest[:62] + "  teleport.tar.gz", false},
		"a SHA-512":                            {digest + digest + "\n", false},
		"one digit too many":                   {digest + "0\n", false},
		"the name first":                       {"SHA256 (teleport.tar.gz) = " + digest, false},
		"a space first":                        {" " + digest, false},
		"a byte order mark first":              {"\ufeff" + digest, false},
		"a web page":                           {"<!DOCTYPE html>" + strings.Repeat(" ", 100), false},
		"not hex":                              {strings.Repeat("g", 64), false},
	} {
		got, err := parseChecksum([]byte(tc.in), "teleport.tar.gz")
		if (err == nil) != tc.ok || tc.ok && got != digest {
			t.Errorf("%s: %q, %v; want it taken: %v", name, got, err, tc.ok)
		}
	}
}

// What mirrors and people give for a checksum, and the words that help.
func TestAChecksumInAnotherFormIsNamed(t *testing.T) {
	digest := digestHex([]byte("x"))
	for name, tc := range map[string]struct{ in, says string }{
		"nothing":                 {"", "the file is empty"},
		"a line end alone":        {"\r\n", "the file is empty"},
		"BSD's form":              {"SHA256 (teleport.tar.gz) = " + digest + "\n", "`sha256sum`"},
		"openssl's form":          {"SHA2-256(teleport.tar.gz)= " + digest + "\n", "`sha256sum`"},
		"openssl's older form":    {"SHA256(teleport.tar.gz)= " + digest + "\n", "`sha256sum`"},
		"certutil's":              {"SHA256 hash of teleport.tar.gz:\r\n" + digest + "\r\n", "certutil"},
		"an image's":              {"sha256:" + digest + "\n", "without sha256: before it"},
		"in capitals":             {"SHA256:" + digest + "\n", "without sha256: before it"},
		"of a browser":            {"sha256-" + digest, "without sha256- before it"},
		"JSON":                    {`{"sha256":"` + digest + `"}`, "JSON"},
		"a list in JSON":          {`["` + digest + `"]`, "JSON"},
		"in quotes":               {`"` + digest + `"`, "without quotes"},
		"a byte order mark":       {"\ufeff" + digest, "byte order mark"},
		"PowerShell's encoding":   {"\xff\xfe" + strings.Join(strings.Split(digest, ""), "\x00") + "\x00", "UTF-16"},
		"UTF-16, big-endian":      {"\xfe\xff\x00" + strings.Join(strings.Split(digest, ""), "\x00"), "UTF-16"},
		"Get-FileHash's table":    {"\r\nAlgorithm       Hash\r\n---------       ----\r\nSHA256          " + strings.ToUpper(digest), "Get-FileHash"},
		"Get-FileHash's list":     {"\r\n\r\nAlgorithm : SHA256\r\nHash      : " + strings.ToUpper(digest), "Get-FileHash"},
		"the name and a colon":    {"teleport.tar.gz: " + digest + "\r\n", "the digest has to come first"},
		"the name and a space":    {"teleport.tar.gz " + strings.ToUpper(digest) + "\r\n", "the digest has to come first"},
		"an assignment":           {"sha256=" + digest, "the digest has to come first"},
		"base64":                  {"LXEWQrcmsEQBYnyp++7y9bUQ3vc5bZnFCM1hbGlJR5o=\n", "base64"},
		"a browser's SHA-512":     {"sha512-" + strings.Repeat("A", 86) + "==", "another digest"},
		"BSD's form of SHA-512":   {"SHA512 (teleport.tar.gz) = " + digest + digest, "another digest"},
		"openssl's form of MD5":   {"MD5(teleport.tar.gz)= " + digest[:32], "another digest"},
		"a SHA-224":               {digest[:56] + "\n", "a SHA-224"},
		"a comment":               {"# made by a mirror\n" + digest + "\n", "a comment"},
		"signed":                  {"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n" + digest, "signed message"},
		"a web page":              {"<!DOCTYPE html>", "a web page"},
		"a web page in capitals":  {"<HTML>", "a web page"},
		"a pointer of Git LFS":    {"version https://git-lfs.github.com/spec/v1\noid sha256:" + digest, "Git LFS"},
		"compressed":              {"\x1f\x8b\x08\x00", "compressed"},
		"cut":                     {digest[:63] + "  teleport.tar.gz\n", "only 63 hex digits"},
		"an MD5":                  {digest[:32] + "  teleport.tar.gz\n", "an MD5"},
		"a SHA-1":                 {strings.ToUpper(digest[:40]) + "\n", "a SHA-1"},
		"an empty line before it": {"\n" + digest, "an empty line"},
		"space before it":         {"  " + digest, "space before it"},
		"noise":                   {"noise noise", `"noise noise"`},
		"one byte":                {"a", `"a"`},
	} {
		_, err := parseChecksum([]byte(tc.in), "teleport.tar.gz")
		if err == nil || !strings.Contains(err.Error(), "does not begin with a SHA-256 (64 hex digits)") || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
}

func TestAChecksumOfAnotherLengthIsNamed(t *testing.T) {
	digest := digestHex([]byte("x"))
	for says, in := range map[string]string{
		"64 hex digits (that is the length of a SHA-384)": digest + digest[:32] + "  teleport.tar.gz\n",
		"64 hex digits (that is the length of a SHA-512)": strings.ToUpper(digest+digest) + "\r\n",
		"64 hex digits; only":                             digest + "0\n",
	} {
		if _, err := parseChecksum([]byte(in), "teleport.tar.gz"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", in, err, says)
		}
	}
}

func TestParseContentRange(t *testing.T) {
	for in, want := range map[string]struct {
		start, total int64
		ok           bool
	}{
		"bytes 5-9/10":                     {5, 10, true},
		"bytes 5-7/10":                     {5, 10, true},
		"bytes 5-9/*":                      {5, -1, true},
		"bytes 5-10/10":                    {},
		"bytes 9-5/10":                     {},
		"bytes -5-9/10":                    {},
		"bytes */10":                       {},
		"bytes 5-9":                        {},
		"octets 5-9/10":                    {},
		"bytes 5-99999999999999999999/10":  {},
		"bytes 5-9/-1":                     {},
		"":                                 {},
		"bytes 5-9/10; bytes 20-30/40":     {},
		"bytes 5-9223372036854775807/9e18": {},
	} {
		start, total, ok := parseContentRange(in)
		if ok != want.ok || ok && (start != want.start || total != want.total) {
			t.Errorf("%q: %d, %d, %v; want %+v", in, start, total, ok, want)
		}
	}
}
