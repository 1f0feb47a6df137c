package packaging

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// status is text on a terminal and JSON elsewhere: what runs it says which it means.
func TestEveryScriptAndGuideNamesTheFormatOfStatus(t *testing.T) {
	status := regexp.MustCompile(`teleport-update(\s+--\S+)*\s+(status|history)\b`)
	found := 0
	for _, root := range []string{"../README.md", "../docs", ".", "../systemd/templates"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".json") || strings.Contains(path, "completions") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			guide, block := strings.HasSuffix(path, ".md"), false
			for line := range strings.Lines(string(data)) {
				if guide && strings.HasPrefix(line, "```") {
					block = !block
				}
				if guide && !block || strings.HasPrefix(strings.TrimSpace(line), "#") || !status.MatchString(line) {
					continue
				}
				if strings.Contains(line, "[command options]") {
					continue // the reference shows how it is called
				}
				if found++; !strings.Contains(line, "--format") {
					t.Errorf("%s: %s", path, line)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("nothing runs status: the search is wrong")
	}
}
