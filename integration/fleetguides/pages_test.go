//go:build hosts

package fleetguides

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/integration/markdown"
)

// module is the repository's folder.
var module = filepath.Join("..", "..")

// machine is a host of a page.
type machine struct {
	name     string
	packages []string // of Debian, beyond what every host of a page has
}

// page is one that is run here, with the hosts of its marks "on: NAME". Blocks before the first mark run on the
// first host.
type page struct {
	file  string
	hosts []machine
}

var pages = []page{
	{"docs/postgresql.md", []machine{
		{"db1.example.com", []string{"postgresql"}}, {"db2.example.com", []string{"postgresql"}},
		{"find1.example.com", nil}, {"find2.example.com", nil},
	}},
}

// What a page says is so, and each of its commands does what the page says.
func TestPages(t *testing.T) {
	for _, p := range pages {
		t.Run(filepath.Base(p.file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(module, p.file))
			check(t, err)
			blocks, err := markdown.Read(p.file, string(text))
			check(t, err)
			r := newReader(t, p)
			for i, b := range blocks {
				shown := i+1 < len(blocks) && blocks[i+1].IsShown()
				r.block(b, shown)
				if shown {
					r.compare(blocks[i+1])
				}
			}
		})
	}
}

// No page that needs several hosts is forgotten.
func TestEveryPageOfSeveralHostsIsRun(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(module, "docs", "*.md"))
	check(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		name := "docs/" + filepath.Base(file)
		blocks, err := markdown.Read(name, string(text))
		check(t, err)
		run := slices.ContainsFunc(pages, func(p page) bool { return p.file == name })
		if needs := markdown.NeedsHosts(blocks); needs != run {
			t.Errorf("%s: marks \"on: HOST\" %v, run here %v", name, needs, run)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
