package packaging

import (
	"debug/buildinfo"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What is linked into a program, by the program's own word, stands with its version and its license in the
// notices of its package; so does Go.
func TestNoticesHaveAllThatIsLinked(t *testing.T) {
	skipBuild(t)
	for _, program := range []string{"teleport-update", "teleport-find"} {
		built := filepath.Join(t.TempDir(), program)
		if err := (Options{Module: "..", Version: "1.2.3"}).compile(t.Context(), built, program, runtime.GOARCH); err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.ReadFile(built)
		if err != nil {
			t.Fatal(err)
		}
		text, err := Options{Module: ".."}.notices(t.Context(), program, runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
		wants := []string{"Go " + info.GoVersion}
		for _, m := range info.Deps {
			wants = append(wants, m.Path+" "+m.Version)
		}
		for _, want := range wants {
			_, license, there := strings.Cut(string(text), "\n==== "+want+"\n\n")
			license, _, _ = strings.Cut(license, "\n==== ")
			if !there || len(license) < 200 {
				t.Errorf("the notices of %s do not have %s: %.100q", program, want, license)
			}
		}
		if len(info.Deps) < 3 {
			t.Errorf("%s is linked of %d modules only", program, len(info.Deps))
		}
	}
}
