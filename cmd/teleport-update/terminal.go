package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"teleport-update/versions/fetch"
)

// terminal shows a person the steps, a line each with a mark and the time, and below
// them one line that a download or a watch draws again and again.
type terminal struct {
	fetch.Screen
	now   func() time.Time
	plain bool // it knows nothing but lines of ASCII
	color bool
	debug bool

	mu    sync.Mutex
	drawn bool // the last line is one that is drawn again
}

// terminalOf returns nil where stderr is none.
func terminalOf(stderr any, debug bool) *terminal {
	f, ok := stderr.(*os.File)
	if !ok || !isTerminal(f) {
		return nil
	}
	plain := slices.Contains([]string{"", "dumb"}, os.Getenv("TERM"))
	return &terminal{Screen: fetch.Terminal{File: f}, now: time.Now, plain: plain, color: !plain && os.Getenv("NO_COLOR") == "", debug: debug}
}

// Write takes a line that is drawn again: it begins with a carriage return.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drawn = !bytes.HasSuffix(p, []byte("\n"))
	return t.Screen.Write(p)
}

// mark stands before a line.
type mark struct{ sign, plain, color string }

var (
	markStep    = mark{"›", "-", "36"}
	markDone    = mark{"✓", "+", "32"}
	markWarning = mark{"!", "!", "33"}
	markError   = mark{"✗", "x", "31"}
)

func (t *terminal) line(level slog.Level, message string, attrs []slog.Attr) {
	t.print(mannerOf(level).mark, t.now().Format("15:04:05 "), t.sentence(message, attrs))
}

// ofMachines are attributes that say nothing to a person who did not ask for more.
var ofMachines = []string{"unit", "dir", "sha256", "url", "bytes"}

// sentence is a message with what belongs to it, as one reads it.
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
	lines := wrap(text, max(t.Width()-1-indent, 20))
	if t.color {
		sign = "\x1b[" + m.color + "m" + sign + "\x1b[0m"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drawn {
		fmt.Fprint(t.Screen, "\r\x1b[K")
		t.drawn = false
	}
	fmt.Fprintf(t.Screen, "%s %s%s\n", sign, when, strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
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
