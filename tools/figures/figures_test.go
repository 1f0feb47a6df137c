package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/tools/internal/figure"
)

const docs = "../../docs/development"

func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%v, %v", paths, err)
	}
	developers, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil || len(developers) < 3 {
		t.Fatalf("%v, %v", developers, err)
	}
	texts := map[string]string{}
	for _, p := range slices.Concat(paths, developers, []string{"../../README.md"}) {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		texts[p] = string(data)
	}
	return texts
}

// What the docs say was measured is what the file of figures says, to the letter.
func TestTheDocsQuoteTheFigures(t *testing.T) {
	figures, err := figure.Read(filepath.Join(docs, "figures.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for name, text := range pages(t) {
		quoted, places, err := figures.Render(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if quoted != text {
			t.Errorf("%s does not quote docs/development/figures.json: `make figures BENCH=0` writes what it should say", name)
		}
		all += places
	}
	if all < 10 {
		t.Errorf("the docs quote figures in only %d places", all)
	}
}

// The docs quote each campaign that `make test` samples, and the line of the whole one in its place
// from its first record on.
func TestTheWholeCampaignIsQuotedForItsSample(t *testing.T) {
	figures, err := figure.Read(filepath.Join(docs, "figures.json"))
	if err != nil {
		t.Fatal(err)
	}
	var whole figure.Figures
	for _, c := range figures.Campaigns {
		if c.By == "make test" && strings.Contains(c.Line, "violations: ") {
			line := c.Name() + ": 1234567, violations: 0"
			whole.Campaigns = append(whole.Campaigns, figure.Campaign{Origin: figure.Origin{By: "make test-faults", Commit: "abcdef0", Date: "2026-01-02"}, Line: line})
		}
	}
	figures = figures.Merge(whole)
	var all strings.Builder
	for _, text := range pages(t) {
		quoted, _, err := figures.Render(text)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(quoted)
	}
	for _, c := range whole.Campaigns {
		part := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(c.Name()) + `: .*  make test, `)
		if part.MatchString(all.String()) {
			t.Errorf("a page quotes what `make test` has of the %s beside the whole", c.Name())
		}
		if !strings.Contains(all.String(), c.Line) {
			t.Errorf("no page will quote the whole campaign of the %s", c.Name())
		}
	}
}

// A campaign's line that stands anywhere else has come from nowhere.
func TestNoFigureStandsBesideTheQuotes(t *testing.T) {
	quote := regexp.MustCompile(`(?s)<!-- figures: .*?<!-- /figures -->`)
	line := regexp.MustCompile(`(?m)^(.*violations: \d|mutants: \d|.*\| \d+\.\d+ s / ).*$`)
	for name, text := range pages(t) {
		for _, found := range line.FindAllString(quote.ReplaceAllString(text, ""), -1) {
			t.Errorf("%s: %q is not quoted from docs/development/figures.json", name, found)
		}
	}
}

// Every figure says where it comes from, and nobody has put one into the file that
// is not its own form.
func TestEveryFigureHasItsOrigin(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(docs, "figures.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f figure.Figures
	in := json.NewDecoder(strings.NewReader(string(data)))
	in.DisallowUnknownFields()
	if err := in.Decode(&f); err != nil {
		t.Fatal(err)
	}
	origins := map[string]figure.Origin{}
	for name, b := range f.Benchmarks {
		origins[name] = b.Origin
	}
	for _, c := range f.Campaigns {
		origins[c.By+" "+c.Name()] = c.Origin
	}
	if len(origins) != len(f.Benchmarks)+len(f.Campaigns) {
		t.Error("a figure is there twice")
	}
	for name, o := range origins {
		if !strings.HasPrefix(o.By, "make ") || len(o.Commit) < 7 || !regexp.MustCompile(`^\d{4}-\d\d-\d\d$`).MatchString(o.Date) {
			t.Errorf("%s comes from %+v", name, o)
		}
	}
}

func TestWhatWasMeasuredAgainTakesThePlaceOfWhatWas(t *testing.T) {
	module := t.TempDir()
	page := "# Page\n\n<!-- figures: lines \"kill points\" -->\n<!-- /figures -->\n\n<!-- figures: table updates -->\n<!-- /figures -->\n"
	if err := os.MkdirAll(filepath.Join(module, "docs", "development"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "docs", "development", "page.md"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	by := func(commit string) figure.Origin {
		return figure.Origin{By: "make test", Commit: commit, Date: "2026-01-02"}
	}
	measure := func(commit, line string, value float64) {
		t.Helper()
		f := figure.Figures{
			Benchmarks: map[string]figure.Benchmark{"updates": {Origin: by(commit), Machine: "a machine", Rows: []figure.Row{{What: "a ratio", Value: value, Goal: 1, HasGoal: true}}}},
			Campaigns:  []figure.Campaign{{Origin: by(commit), Line: line}, {Origin: by(commit), Line: "power cuts: 7, violations: 0"}},
		}
		if err := f.Record(module, "test"); err != nil {
			t.Fatal(err)
		}
		if err := run(module); err != nil {
			t.Fatal(err)
		}
	}
	measure("aaaaaaa", "kill points: 12, violations: 0", 0.5)
	measure("bbbbbbb", "kill points: 13, violations: 0", 1.5)
	got, err := os.ReadFile(filepath.Join(module, "docs", "development", "page.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "# Page\n\n<!-- figures: lines \"kill points\" -->\n```text\nkill points: 13, violations: 0  make test, bbbbbbb, 2026-01-02\n```\n<!-- /figures -->\n\n" +
		"<!-- figures: table updates -->\na machine; `make test` at bbbbbbb, 2026-01-02.\n\n| | medians | value | goal |\n| --- | --- | --- | --- |\n| a ratio |  | 1.50 | **missed: ≤ 1** |\n<!-- /figures -->\n"
	if string(got) != want {
		t.Errorf("the page says\n%s\nwant\n%s", got, want)
	}
	all, err := figure.Read(filepath.Join(module, figure.File))
	if err != nil || len(all.Campaigns) != 2 {
		t.Errorf("the file holds %+v, %v", all, err)
	}
	for _, bad := range []string{"<!-- figures: table nothing -->\n<!-- /figures -->", "<!-- figures: lines \"nothing\" -->\n<!-- /figures -->", "<!-- figures: table updates -->\n"} {
		if _, _, err := all.Render(bad); err == nil {
			t.Errorf("%q is a quote of something", bad)
		}
	}
}
