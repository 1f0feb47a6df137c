package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"teleport-update/internal/console"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

// documents are the formats for programs, formats all formats.
var (
	documents = []string{"json", "yaml"}
	formats   = slices.Concat([]string{"table"}, documents)
)

func outputFlag(usual string) cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: usual, Usage: "how to print it, `table|json|yaml`"}
}

// wordsOf is interleaved for a command with an outputFlag.
func wordsOf(c *cli.Context) ([]string, error) {
	words, err := interleaved(c)
	if err == nil && !slices.Contains(formats, c.String("output")) {
		err = usageErrorf("-o %q is none of %s", c.String("output"), strings.Join(formats, ", "))
	}
	return words, err
}

// noWords is wordsOf for a command without words.
func noWords(c *cli.Context) error {
	words, err := wordsOf(c)
	if err == nil && len(words) > 0 {
		err = usageErrorf("%s takes no arguments, got %q", c.Command.Name, words[0])
	}
	return err
}

// oneWord is wordsOf for a command with one word.
func oneWord(c *cli.Context, what string) (string, error) {
	words, err := wordsOf(c)
	if err == nil && len(words) != 1 {
		err = usageErrorf("%s takes %s, got %q", c.Command.Name, what, words)
	}
	if err != nil {
		return "", err
	}
	return words[0], nil
}

// show prints the server's answer at a path. The table is for people.
func show[T any](c *cli.Context, path string, table func(io.Writer, T) error) error {
	var value T
	if err := newAdminClient(c).ask(c.Context, http.MethodGet, path, nil, &value); err != nil {
		return err
	}
	return printAs(c, value, table)
}

// printAs prints a value in the format that the flag asks for.
func printAs[T any](c *cli.Context, value T, table func(io.Writer, T) error) error {
	if c.String("output") == "table" {
		return table(c.App.Writer, value)
	}
	return printValue(c, value)
}

// printItem prints one of several values as soon as it is known: lines of text, a line of JSON, or an item of a list
// in YAML.
func printItem(c *cli.Context, value any, lines ...string) error {
	switch c.String("output") {
	case "table":
		for _, line := range lines {
			if _, err := fmt.Fprintln(c.App.Writer, console.Line(line)); err != nil {
				return err
			}
		}
		return nil
	case "yaml":
		return printValue(c, []any{value})
	}
	return printValue(c, value)
}

// printValue prints a value with JSON fields as JSON or YAML.
func printValue(c *cli.Context, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if c.String("output") == "yaml" {
		if data, err = yamlOf(data); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s\n", bytes.TrimSpace(data))
	return err
}

// yamlOf converts JSON to YAML, with the fields in the same order.
func yamlOf(data []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(withEscapes(data), &document); err != nil {
		return nil, err
	}
	var plain func(*yaml.Node)
	plain = func(n *yaml.Node) {
		n.Style = 0
		if strings.ContainsFunc(n.Value, func(r rune) bool { return !console.Printable(r) }) {
			n.Style = yaml.DoubleQuotedStyle // the encoder may then use escapes
		}
		for _, child := range n.Content {
			plain(child)
		}
	}
	plain(&document)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// withEscapes returns the same JSON with escapes for characters that YAML does not allow.
func withEscapes(data []byte) []byte {
	var out []byte
	for _, r := range string(data) {
		if r < ' ' || r > 0xffff || console.Printable(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// table is text in columns. Numbers are at the right.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{rows: [][]string{head}} }

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = console.Line(cells[i])
	}
	t.rows = append(t.rows, cells)
}

func (t *table) print(w io.Writer) error {
	var width []int
	number := make(map[int]bool)
	for at, row := range t.rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
				number[i] = true
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
			number[i] = number[i] && (at == 0 || strings.Trim(cell, "0123456789") == "")
		}
	}
	var text strings.Builder
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			space := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if number[i] {
				line += space + cell + "  "
			} else {
				line += cell + space + "  "
			}
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// maxCell keeps an error of many lines from filling the screen; -o json has it all.
const maxCell = 160

func firstLine(text string) string {
	line, _, cut := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > maxCell {
		line, cut = string(runes[:maxCell]), true
	}
	if cut {
		line += " …"
	}
	return line
}

// complain prints an error.
func complain(w io.Writer, err error) {
	fmt.Fprintf(w, "teleport-find: %s\n", console.Line(err.Error()))
}
