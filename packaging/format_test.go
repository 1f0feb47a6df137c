package packaging

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// status is text on a terminal and JSON elsewhere: what runs it says which it means.
func TestEveryScriptAndGuideNamesTheFormatOfStatus(t *testing.T) {
	found := 0
	for _, root := range []string{"../README.md", "../docs", ".", "../systemd/templates"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || runsNothing(path) {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, line := range statusLines(string(data), strings.HasSuffix(path, ".md")) {
				found++
				if !strings.Contains(line, "--format") {
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

// runsNothing reports whether a file is no script and no guide: what an alert says, a
// person types.
func runsNothing(path string) bool {
	return slices.Contains([]string{".go", ".json"}, filepath.Ext(path)) ||
		strings.Contains(path, "completions") || strings.Contains(path, "monitoring")
}

var status = regexp.MustCompile(`teleport-update(\s+--\S+)*\s+(status|history)\b`)

// statusLines are those that run status: of a guide, those of its blocks.
func statusLines(text string, guide bool) (lines []string) {
	block := false
	for line := range strings.Lines(text) {
		if guide && strings.HasPrefix(line, "```") {
			block = !block
		}
		if guide && !block {
			continue
		}
		comment := strings.HasPrefix(strings.TrimSpace(line), "#")
		reference := strings.Contains(line, "[command options]") // shows how it is called
		if status.MatchString(line) && !comment && !reference {
			lines = append(lines, line)
		}
	}
	return lines
}
