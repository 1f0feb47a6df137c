package files

import (
	"strings"
	"testing"
	"text/template"

	"teleport-update/internal/version"
)

func TestNameIsWhatTheTemplateMakes(t *testing.T) {
	parsed, err := template.New("name").Parse(NameTemplate)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []version.Edition{version.OSS, version.Enterprise, version.FIPS} {
		var want strings.Builder
		if err := parsed.Execute(&want, map[string]any{"Version": "15.1.1", "OS": "linux", "Arch": "arm64", "Enterprise": e.Enterprise(), "FIPS": e.FIPS()}); err != nil {
			t.Fatal(err)
		}
		got := Name("15.1.1", e, "linux", "arm64")
		if got != want.String() {
			t.Errorf("%s: %s; want %s", e, got, want.String())
		}
		if r, ok := parseName(got); !ok || r != (release{version: "15.1.1", edition: e, system: "linux-arm64"}) {
			t.Errorf("%s is read as %+v, %v", got, r, ok)
		}
	}
}
