package fetch

import (
	"strings"
	"testing"
)

func TestParseChecksum(t *testing.T) {
	digest := digestHex([]byte("x"))
	for name, tc := range map[string]struct {
		in string
		ok bool
	}{
		"as sha256sum writes it":    {digest + "  teleport.tar.gz\n", true},
		"in binary mode":            {digest + " *teleport.tar.gz\n", true},
		"the digest alone":          {digest, true},
		"the digest and a line end": {digest + "\r\n", true},
		"in capitals":               {strings.ToUpper(digest) + "\n", true},
		"followed by anything":      {digest + ", signed by somebody\x00\xff", true},
		"nothing":                   {"", false},
		"too short":                 {digest[:63], false},
		"too short and a name":      {digest[:62] + "  teleport.tar.gz", false},
		"a SHA-512":                 {digest + digest + "\n", false},
		"one digit too many":        {digest + "0\n", false},
		"the name first":            {"SHA256 (teleport.tar.gz) = " + digest, false},
		"a space first":             {" " + digest, false},
		"a byte order mark first":   {"\ufeff" + digest, false},
		"a web page":                {"<!DOCTYPE html>" + strings.Repeat(" ", 100), false},
		"not hex":                   {strings.Repeat("g", 64), false},
	} {
		got, err := parseChecksum([]byte(tc.in))
		if (err == nil) != tc.ok || tc.ok && got != digest {
			t.Errorf("%s: %q, %v; want it taken: %v", name, got, err, tc.ok)
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
