package fetch

import (
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
	"teleport-update/versions"
)

func FuzzParseChecksum(f *testing.F) {
	digest := digestHex(nil)
	for _, seed := range []string{"", digest, strings.ToUpper(digest) + "  x\n", digest + digest, digest[:63] + "g", "<html>", digest + "  x\n" + digest + "  teleport.tar.gz\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		digest, err := parseChecksum(data, "teleport.tar.gz")
		if err == nil && (!versions.IsDigest(digest) || !strings.Contains(strings.ToLower(string(data)), digest)) {
			t.Errorf("%q was read as %q", data, digest)
		}
	})
}

// FuzzTemplate: a template that is taken makes a URL that may be asked, for every
// edition; one that is not says so without a password.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{DefaultTemplate, "https://ann:x@h/{{.Version}}?t=y", "file:///srv/{{.Version}}", "http://127.0.0.1/{{if .FIPS}}f{{end}}x",
		"http://h/{{.Version}}", "{{range 9}}x{{end}}", "https://h/{{printf \"%9999s\" .OS}}", "https://h/{{with .Edition}}{{.}}{{end}}", "{{define \"x\"}}{{end}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<10 || strings.Contains(text, "{{") && strings.Contains(text, "printf") && len(text) > 200 {
			return // widths of a megabyte each: slow, and root's own wish
		}
		tmpl, err := ParseTemplate(text)
		if err != nil {
			return
		}
		for _, e := range []version.Edition{version.OSS, version.Enterprise, version.FIPS} {
			u, err := tmpl.URL(versions.Release{Version: "1.2.3", Edition: e})
			if err != nil {
				t.Fatalf("%q was taken: %v", text, err)
			}
			if u.Scheme != "file" {
				if err := webclient.CheckURL(u); err != nil {
					t.Errorf("%q makes %v: %v", text, u, err)
				}
			}
			if sum := siblingURL(u, checksumSuffix); !strings.HasSuffix(sum.Path, ".sha256") || sum.Host != u.Host {
				t.Errorf("the checksum of %v is at %v", u, sum)
			}
		}
	})
}

// FuzzContentRange: a range that is read is one that a part can have.
func FuzzContentRange(f *testing.F) {
	for _, seed := range []string{"bytes 5-9/10", "bytes 0-0/*", "bytes 9-5/10", "bytes 5-9/3", "bytes -1-9/10", "bytes 5-9/99999999999999999999", "items 0-1/2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		start, total, ok := parseContentRange(s)
		if ok && (start < 0 || total != -1 && total <= start) {
			t.Errorf("%q was read as %d of %d", s, start, total)
		}
	})
}
