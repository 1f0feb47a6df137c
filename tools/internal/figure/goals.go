package figure

import (
	"fmt"
	"os"
	"strings"
)

// UnnamedGoals are those goals that the table "Goals" of a page does not have: each is told by how
// its row begins, and what stands in the row's last column.
func UnnamedGoals(page string, goals map[string]string) (unnamed []string, err error) {
	data, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, table, _ := strings.Cut(string(data), "## Goals\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := strings.Split(table, "\n| ")
	for what, want := range goals {
		found := false
		for _, row := range rows {
			found = found || strings.HasPrefix(row, what) && strings.HasSuffix(strings.TrimSpace(row), "| "+want+" |")
		}
		if !found {
			unnamed = append(unnamed, fmt.Sprintf("%s for %q", want, what))
		}
	}
	return unnamed, nil
}
