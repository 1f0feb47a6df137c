package fetch

import (
	"runtime"
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

func TestTemplatesMakeURLs(t *testing.T) {
	host := runtime.GOOS + "-" + runtime.GOARCH
	for _, tc := range []struct {
		text    string
		release versions.Release
		want    string
	}{
		{DefaultTemplate, versions.Release{Version: "15.1.1", Edition: version.OSS}, "https://cdn.teleport.dev/teleport-v15.1.1-" + host + "-bin.tar.gz"},
		{DefaultTemplate, versions.Release{Version: "15.1.1", Edition: version.Enterprise}, "https://cdn.teleport.dev/teleport-ent-v15.1.1-" + host + "-bin.tar.gz"},
		{DefaultTemplate, versions.Release{Version: "15.1.1", Edition: version.FIPS}, "https://cdn.teleport.dev/teleport-ent-v15.1.1-" + host + "-fips-bin.tar.gz"},
		{"https://example.com/teleport-{{ .Edition }}-{{ .Version }}-{{ .Arch }}.tgz", versions.Release{Version: "15.1.1-rc.1+b", Edition: version.FIPS},
			"https://example.com/teleport-enterprise-fips-15.1.1-rc.1+b-" + runtime.GOARCH + ".tgz"},
		{"https://u:p@example.com/a%2fb/{{.Version}}?sig=x", oss("1.2.3"), "https://u:p@example.com/a%2fb/1.2.3?sig=x"},
		{"file:///media/{{ .Version }}.tgz", oss("1.2.3"), "file:///media/1.2.3.tgz"},
		{"http://127.0.0.1:8080/{{ .Version }}", oss("1.2.3"), "http://127.0.0.1:8080/1.2.3"},
		{"http://[::1]:8080/{{ .Version }}", oss("1.2.3"), "http://[::1]:8080/1.2.3"},
	} {
		u, err := mustTemplate(t, tc.text).URL(tc.release)
		if err != nil || u.String() != tc.want {
			t.Errorf("%s for %v: %v, %v; want %s", tc.text, tc.release, u, err, tc.want)
			continue
		}
		path, query, _ := strings.Cut(tc.want, "?")
		if query != "" {
			query = "?" + query
		}
		if sum := siblingURL(u, checksumSuffix).String(); sum != path+".sha256"+query {
			t.Errorf("the checksum of %s is at %s", tc.want, sum)
		}
	}
}

func TestWrongTemplatesFailWhenTheyAreGiven(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                       "",
		"plain http":                  "http://example.com/{{ .Version }}",
		"another scheme":              "ftp://example.com/{{ .Version }}",
		"no scheme":                   "example.com/{{ .Version }}",
		"a path alone":                "/media/{{ .Version }}",
		"no host":                     "https:///{{ .Version }}",
		"no path":                     "https://example.com",
		"no path but a slash":         "https://example.com/",
		"a relative file":             "file:teleport.tgz",
		"a file on another host":      "file://server/teleport.tgz",
		"a file with a query":         "file:///teleport.tgz?x=y",
		"a fragment":                  "https://example.com/{{ .Version }}#x",
		"a field that does not exist": "https://example.com/{{ .Flavour }}",
		"a field of FIPS alone":       "https://example.com/{{ if .FIPS }}{{ .Flavour }}{{ end }}",
		"an open brace":               "https://example.com/{{ .Version",
		"a function that is none":     "https://example.com/{{ exec \"id\" }}",
		"a long loop":                 "https://example.com/{{ range 1000000000000 }}{{ end }}",
		"a loop inside a condition":   "https://example.com/{{ if .OS }}{{ range 1000000000000 }}{{ end }}{{ end }}",
		"a template inside":           `https://example.com/{{ template "x" }}`,
		"a URL without end":           `https://example.com/{{ printf "%9999d" 1 }}`,
		"a scheme of javascript":      "javascript:alert(1)",
		"a host with a space":         "https://exa mple.com/{{ .Version }}",
	} {
		if parsed, err := ParseTemplate(text); err == nil {
			u, _ := parsed.URL(oss("1.2.3"))
			t.Errorf("%s: taken, as %v", name, u)
		}
	}
	parsed := mustTemplate(t, DefaultTemplate)
	for _, r := range []versions.Release{{}, {Version: "15.1.1"}, {Version: "../15.1.1", Edition: version.OSS}, {Version: "v15.1.1", Edition: version.OSS}, {Version: "15.1.1", Edition: "pro"}} {
		if u, err := parsed.URL(r); err == nil {
			t.Errorf("%+v: taken, as %v", r, u)
		}
	}
}

func TestATemplatesErrorHidesItsSecrets(t *testing.T) {
	for _, text := range []string{
		"http://user:hunter2@example.com/{{ .Version }}?token=s3cr3t",
		"https://user:hunter2@exa mple.com/x?token=s3cr3t",
		"https://user:hunter2@example.com/x?token=s3cr3t#f",
		"https://user:hunter2@example.com/{{ .Nothing }}?token=s3cr3t",
	} {
		_, err := ParseTemplate(text)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}
