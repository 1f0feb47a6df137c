package figure

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A page of the docs quotes figures between two comments:
//
//	<!-- figures: table updates -->              the table of a benchmark
//	<!-- figures: lines "kill points" "power*" -->   the lines of campaigns: of that
//	                                             name, or of all that begin so
//	<!-- /figures -->
//
// What is between them is Render's.
var quoted = regexp.MustCompile(`(?ms)^<!-- figures: ([^\n]*?) -->\n(.*?)^<!-- /figures -->$`)

// Render returns a page with what it quotes as the figures are, and how many
// places those are.
func (f Figures) Render(page string) (text string, places int, err error) {
	text = quoted.ReplaceAllStringFunc(page, func(place string) string {
		m := quoted.FindStringSubmatch(place)
		body, e := f.quote(m[1])
		if e != nil && err == nil {
			err = fmt.Errorf("<!-- figures: %s -->: %w", m[1], e)
		}
		places++
		return fmt.Sprintf("<!-- figures: %s -->\n%s<!-- /figures -->", m[1], body)
	})
	if opened := strings.Count(page, "<!-- figures:"); err == nil && opened != places {
		err = fmt.Errorf("of %d places with figures only %d have an end", opened, places)
	}
	return text, places, err
}

func (f Figures) quote(what string) (string, error) {
	kind, rest, _ := strings.Cut(what, " ")
	switch kind {
	case "table":
		b, ok := f.Benchmarks[rest]
		if !ok {
			return "", fmt.Errorf("there is no benchmark %q", rest)
		}
		return b.Table(), nil
	case "lines":
		var names []string
		for _, m := range name.FindAllStringSubmatch(rest, -1) {
			names = append(names, m[1])
		}
		return f.lines(names)
	}
	return "", fmt.Errorf("neither a table nor lines")
}

var name = regexp.MustCompile(`"([^"]+)"`)

// Table is the benchmark as Markdown.
func (b Benchmark) Table() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s; `%s` at %s, %s.\n", b.Machine, b.By, b.Commit, b.Date)
	for _, note := range b.Notes {
		fmt.Fprintln(&t, note)
	}
	fmt.Fprint(&t, "\n| | medians | value | goal |\n| --- | --- | --- | --- |\n")
	for _, r := range b.Rows {
		fmt.Fprintf(&t, "| %s | %s | %s | %s |\n", r.What, r.Medians, r.value(), r.goal())
	}
	return t.String()
}

func (r Row) value() string {
	if r.Unit == "" {
		return fmt.Sprintf("%.2f", r.Value)
	}
	return fmt.Sprintf("%.1f %s", r.Value, r.Unit)
}

func (r Row) goal() string {
	switch {
	case !r.HasGoal:
		return ""
	case r.Value <= r.Goal:
		return fmt.Sprintf("≤ %.4g", r.Goal)
	}
	return fmt.Sprintf("**missed: ≤ %.4g**", r.Goal)
}

// suites are those whose campaigns the docs tell of, in that order.
var suites = []string{"make test", "make test-faults", "make test-nightly", "make test-mutants"}

// lines are the campaigns of these names as a block, those of one suite together.
func (f Figures) lines(names []string) (string, error) {
	var lines [][2]string
	found := map[string]bool{}
	width := 0
	for _, suite := range suites {
		for _, n := range names {
			for _, c := range f.Campaigns {
				if begin, all := strings.CutSuffix(n, "*"); c.By != suite || c.Name() != n && !(all && strings.HasPrefix(c.Name(), begin)) {
					continue
				}
				found[n] = true
				if c.By == sample && c.isCounted() && f.wholeOf(c.Name()) {
					continue
				}
				width = max(width, len([]rune(c.Line)))
				lines = append(lines, [2]string{c.Line, fmt.Sprintf("%s, %s, %s", c.By, c.Commit, c.Date)})
			}
		}
	}
	if i := slices.IndexFunc(names, func(n string) bool { return !found[n] }); i >= 0 || len(names) == 0 {
		return "", fmt.Errorf("there is no campaign %q", names[max(i, 0):])
	}
	var b strings.Builder
	b.WriteString("```text\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "%-*s  %s\n", min(width, 80), l[0], l[1])
	}
	b.WriteString("```\n")
	return b.String(), nil
}

// sample is what runs a part of each campaign. Its line is quoted only until there is one of the whole.
const sample = "make test"

// isCounted reports whether the line counts cases of a campaign, and not minutes.
func (c Campaign) isCounted() bool { return strings.Contains(c.Line, "violations: ") }

func (f Figures) wholeOf(name string) bool {
	return slices.ContainsFunc(f.Campaigns, func(c Campaign) bool { return c.By != sample && c.Name() == name })
}
