package rollout

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The tables of docs/teleport-find.md are those that the code runs from. With
// ROLLOUT_DOCS=write they are written anew.
func TestTheGuideHasTheTablesOfTheCode(t *testing.T) {
	const name = "teleport-find.md"
	guide := readDoc(t, name)
	for _, table := range tables() {
		text := table.markdown()
		if strings.Contains(guide, text) {
			continue
		}
		if os.Getenv("ROLLOUT_DOCS") != "write" {
			t.Errorf("docs/%s does not have the table %q as the code has it; ROLLOUT_DOCS=write writes it", name, table.head)
			continue
		}
		head := text[:strings.Index(text, "\n")+1]
		from := strings.Index(guide, head)
		if from < 0 {
			t.Errorf("docs/%s has no table that begins with %s", name, head)
			continue
		}
		length := 0
		for line := range strings.Lines(guide[from:]) {
			if !strings.HasPrefix(line, "|") {
				break
			}
			length += len(line)
		}
		guide = guide[:from] + text + guide[from+length:]
		if err := os.WriteFile(filepath.Join("../../docs", name), []byte(guide), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type table struct {
	head []string
	rows [][]string
}

func (t table) markdown() string {
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	text := line(t.head) + strings.Repeat("| --- ", len(t.head)) + "|\n"
	for _, row := range t.rows {
		text += line(row)
	}
	return text
}

func tables() []table {
	code := func(words ...any) string {
		var list []string
		for _, w := range words {
			if text := fmt.Sprint(w); text != "" {
				list = append(list, "`"+text+"`")
			}
		}
		return strings.Join(list, ", ")
	}
	states := table{head: []string{"state", "what it means", "commands that move it"}}
	for _, s := range States {
		states.rows = append(states.rows, []string{code(s.State), s.Means, s.Moved})
	}
	first := table{head: []string{"if", "then"}}
	for _, r := range rules {
		first.rows = append(first.rows, []string{r.when, r.then})
	}
	steps := table{head: []string{"state", "strategy", "when", "then", "reason"}}
	for _, tr := range transitions {
		then := code(tr.to)
		if tr.halt {
			then = "halted"
		}
		if tr.then != "" {
			then += "; " + tr.then
		}
		steps.rows = append(steps.rows, []string{code(tr.from), scopeOf(tr.under), tr.when, then, code(tr.reason)})
	}
	points := table{head: []string{"condition", "state", "when", "what helps"}}
	for _, c := range conditions {
		points.rows = append(points.rows, []string{code(c.kind), code(c.from), c.when, c.moved})
	}
	byHand := table{head: []string{"command", "of a group that is", "if", "then"}}
	for _, o := range orders {
		command := o.verb.Command()
		if o.force {
			command += " --force"
		}
		var from []any
		for _, s := range o.from {
			from = append(from, s)
		}
		of := code(from...)
		if o.onlyHalted {
			of += ", and halted"
		}
		if o.under != "" {
			of += ", " + scopeOf(o.under)
		}
		byHand.rows = append(byHand.rows, []string{code(command), of, o.when, o.then})
	}
	byHand.rows = append(byHand.rows, []string{code(Reset.Command()), "the whole rollout", "", resetWords})
	answers := table{head: []string{"mode", "group", "`agent_version`", "`agent_autoupdate`"}}
	for _, row := range FindTable {
		answers.rows = append(answers.rows, []string{row.Mode, row.Group, row.Version, row.Update})
	}
	outlook := table{head: []string{"word", "when"}}
	for _, o := range outlooks {
		outlook.rows = append(outlook.rows, []string{code(o.word), o.when})
	}
	return []table{outlook, states, first, steps, points, byHand, answers}
}

func scopeOf(s scope) string {
	if s == "" {
		return "any"
	}
	return string(s)
}
