package packaging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The address in a package is where holes are reported: it is this project's, never
// somebody else's, and there is one of it.
func TestPackagesNameTheirPublisher(t *testing.T) {
	p, err := readPublisher("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, others := range []string{"example.", "gravitational", "goteleport"} {
		if strings.Contains(p.Maintainer+p.Homepage, others) {
			t.Errorf("the publisher is %+v", p)
		}
	}
	for _, program := range programs {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(program)); err != nil {
			t.Fatal(err)
		}
		if err := p.fill(dir); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]string{
			"nfpm.yaml": {`maintainer: "` + p.Maintainer + `"`, `packager: "` + p.Maintainer + `"`, `homepage: "` + p.Homepage + `"`},
			"copyright": {"Source: " + p.Homepage + "\n"},
		} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if !strings.Contains(string(text), w) {
					t.Errorf("%s of %s lacks %q", name, program, w)
				}
			}
			if strings.Contains(string(text), "example.com") || strings.Contains(string(text), "@MAINTAINER@") {
				t.Errorf("%s of %s:\n%s", name, program, text)
			}
		}
	}
}

func TestAPublisherThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "Maintainer: A <a@b.org>\n", "Homepage: https://b.org/\n", "Maintainer: a@b.org\nHomepage: https://b.org/\n",
		"Maintainer: A <a>\nHomepage: https://b.org/\n", "Maintainer: A <a@b.org>\nHomepage: http://b.org/\n",
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "packaging"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, publisherFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if p, err := readPublisher(dir); err == nil {
			t.Errorf("%q is taken for %+v", text, p)
		}
	}
}
