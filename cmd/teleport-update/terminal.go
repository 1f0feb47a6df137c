package main

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"teleport-update/internal/console"
)

// terminal shows a person the steps, a line each with a mark and the time, and below
// them one line that a download or a watch draws again and again.
type terminal struct {
	*console.Output
	now   func() time.Time
	plain bool // it knows nothing but lines of ASCII
	color bool
	debug bool
}

// terminalOf returns nil if stderr is no terminal.
func terminalOf(stderr *console.Output, debug bool) *terminal {
	if !stderr.Terminal() {
		return nil
	}
	plain := slices.Contains([]string{"", "dumb"}, os.Getenv("TERM"))
	return &terminal{Output: stderr, now: time.Now, plain: plain, color: !plain && os.Getenv("NO_COLOR") == "", debug: debug}
}

// mark stands before a line.
type mark struct {
	sign, plain string
	color       console.Color
}

var (
	markStep    = mark{"›", "-", console.Cyan}
	markDone    = mark{"✓", "+", console.Green}
	markWarning = mark{"!", "!", console.Yellow}
	markError   = mark{"✗", "x", console.Red}
)

func (t *terminal) line(level slog.Level, message string, attrs []slog.Attr) {
	t.print(mannerOf(level).mark, t.now().Format("15:04:05 "), t.sentence(message, attrs))
}

// ofMachines are attributes that mean nothing to a person who did not ask for more.
var ofMachines = []string{"unit", "dir", "sha256", "url", "bytes"}

// sentence returns a message with its attributes, in readable words.
func (t *terminal) sentence(message string, attrs []slog.Attr) string {
	var with []string
	why := ""
	for _, a := range attrs {
		name, text := strings.ReplaceAll(a.Key, "_", " "), valueText(a)
		switch {
		case a.Key == "error":
			why = ": " + text
		case !t.debug && slices.Contains(ofMachines, a.Key), text == "", text == "false":
		case text == "true":
			with = append(with, name)
		default:
			with = append(with, name+" "+text)
		}
	}
	if len(with) > 0 {
		message += " (" + strings.Join(with, ", ") + ")"
	}
	return message + why
}

// say ends a command.
func (t *terminal) say(well bool, text string) {
	m := markDone
	if !well {
		m = markWarning
	}
	t.print(m, "", text)
}

func (t *terminal) print(m mark, when, text string) {
	sign := m.sign
	if t.plain {
		sign = m.plain
	}
	indent := len("x ") + len(when)
	lines := wrap(console.Line(text), max(t.Width()-1-indent, 20))
	color := console.NoColor
	if t.color {
		color = m.color
	}
	t.Marked(sign, color, when+strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
}

// wrap breaks a text at spaces. A word that is longer than a line stays whole, and so
// does a command in backquotes: somebody may copy it.
func wrap(text string, width int) (lines []string) {
	var words []string
	quoted := false
	for word := range strings.SplitSeq(text, " ") {
		if quoted {
			words[len(words)-1] += " " + word
		} else {
			words = append(words, word)
		}
		quoted = quoted != (strings.Count(word, "`")%2 == 1)
	}
	line := ""
	for _, word := range words {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
