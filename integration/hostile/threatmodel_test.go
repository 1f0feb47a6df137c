//go:build hosts

package hostile

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The threat model is worth what its claims are: each names what shows it, and
// that is there.
func TestTheThreatModelNamesCasesThatExist(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "development", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	named := map[string]bool{}
	for _, k := range kinds {
		for _, c := range k.cases() {
			exists[k.name+": "+c.name] = true
		}
	}
	for name := range testNames(t) {
		exists[name] = true
	}
	if len(exists) < 500 {
		t.Fatalf("only %d cases and tests are there: the test looks in the wrong place", len(exists))
	}
	claims := 0
	for item := range strings.SplitSeq(string(data), "\n- ") {
		item, _, _ = strings.Cut(item, "\n\n")
		claim, rest, ok := strings.Cut(strings.TrimPrefix(item, "**"), "**")
		if !strings.HasPrefix(item, "**") || !ok {
			continue
		}
		claims++
		shown := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(rest, -1)
		if len(shown) == 0 {
			t.Errorf("nothing shows that %s", claim)
		}
		for _, s := range shown {
			name := strings.Join(strings.Fields(s[1]), " ")
			if !exists[name] {
				t.Errorf("%s\n\tnames %q, which does not exist", claim, name)
			}
			kind, _, _ := strings.Cut(name, ": ")
			named[kind] = true
		}
	}
	if claims < 25 {
		t.Errorf("only %d claims were found: the test reads the wrong way", claims)
	}
	for _, k := range kinds {
		if !named[k.name] {
			t.Errorf("no claim names a case of %s", k.name)
		}
	}
	t.Logf("%d claims", claims)
}

// testNames are the names of all tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	pattern := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "build" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && d.Name() != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range pattern.FindAllStringSubmatch(string(data), -1) {
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
