//go:build hosts

package guides

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"teleport-update/integration/markdown"
)

// task is something that a person wants to do who has only the README.
type task struct {
	name string
	// pages lead to its commands; the first is the README. words are in the line of the link to each page after it.
	pages, words []string
	// section has the commands, on the last page, and types is one of them.
	section, types string
}

var tasks = []task{
	{"install", []string{"README.md"}, nil, "Install", "teleport-update enable --proxy"},
	{"first fleet", []string{"README.md", "docs/first-fleet.md"}, []string{"a find server, three hosts"}, "6. A rollout", "teleport-find rollout start"},
	{"failed release", []string{"README.md", "docs/production.md"}, []string{"release that failed"}, "When a group halts", "teleport-find rollout back"},
	{"which host, and why", []string{"README.md", "docs/production.md"}, []string{"which host, why"}, "When a group halts", "teleport-find hosts --state failed"},
	{"hold one host", []string{"README.md", "docs/first-fleet.md"}, []string{"hold one host"}, "7. Hold one host", "teleport-find hosts db-1 hold"},
	{"go back", []string{"README.md", "docs/operate.md"}, []string{"go back"}, "Going back", "teleport-update rollback"},
	{"full disk", []string{"README.md", "docs/operate.md"}, []string{"full disk"}, "A full disk", "teleport-update update --now"},
	{"moved proxy", []string{"README.md", "docs/changing-settings.md"}, []string{"another proxy"}, "The find server", "teleport-update enable --proxy"},
	{"new CA", []string{"README.md", "docs/changing-settings.md"}, []string{"CA"}, "The authority", "cat /root/next-ca.pem >> /etc/ssl/example-ca.pem"},
	{"leave", []string{"README.md", "docs/operate.md"}, []string{"leave"}, "Leaving", "teleport-update uninstall"},
}

// mostPages is how many pages a task may need.
const mostPages = 3

// Links lead from the README to the commands of each task, on three pages at most. TestGuides or, of a page of several hosts,
// TestPages of fleetguides runs each block of a page that is run.
func TestTheReadmeLeadsToEachTask(t *testing.T) {
	t.Parallel()
	for _, task := range tasks {
		t.Run(task.name, func(t *testing.T) {
			if len(task.pages) > mostPages || task.pages[0] != "README.md" || len(task.words) != len(task.pages)-1 {
				t.Fatalf("the way is %q with %q", task.pages, task.words)
			}
			for i, words := range task.words {
				anchor, ok := linked(file(t, task.pages[i]), task.pages[i], task.pages[i+1], words)
				if !ok {
					t.Errorf("%s has no line with %q and a link to %s", task.pages[i], words, task.pages[i+1])
				}
				if anchor != "" && anchor != anchorOf(task.section) {
					t.Errorf("the link with %q leads to #%s; want #%s", words, anchor, anchorOf(task.section))
				}
			}
			page := task.pages[len(task.pages)-1]
			if ofACheckout(page) {
				t.Fatalf("nothing runs the commands of %s", page)
			}
			text := file(t, page)
			from, to := linesOf(text, task.section)
			if from == 0 {
				t.Fatalf("%s has no section %q", page, task.section)
			}
			blocks, err := markdown.Read(page, text)
			check(t, err)
			for _, b := range blocks {
				if b.Line > from && b.Line < to && b.IsRun() && strings.Contains(b.Text, task.types) {
					return
				}
			}
			t.Errorf("no block of section %q of %s runs %q", task.section, page, task.types)
		})
	}
}

// linked returns the anchor of a link from a page to another, in a line that has the words.
func linked(text, from, to, words string) (anchor string, ok bool) {
	for line := range strings.Lines(text) {
		if !strings.Contains(line, words) {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if path.Join(path.Dir(from), m[1]) == to {
				return strings.TrimPrefix(m[2], "#"), true
			}
		}
	}
	return "", false
}

// linesOf returns the line of a heading, and the line after its section; 0 for no such heading.
func linesOf(text, heading string) (from, to int) {
	level, fenced := 0, false
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		m := headingLine.FindStringSubmatch(line)
		switch {
		case fenced || m == nil:
		case from == 0 && m[2] == heading:
			from, level = i+1, len(m[1])
		case from > 0 && len(m[1]) <= level:
			return from, i + 1
		}
	}
	return from, len(lines) + 1
}

var headingLine = regexp.MustCompile(`^(#+) (.+)$`)

// anchorOf returns the anchor of a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

var notInAnchors = regexp.MustCompile(`[^\w -]`)
