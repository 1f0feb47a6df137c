package main

import (
	"fmt"
	"html"
	"strings"
	"time"
	"unicode/utf8"
)

// The screen, in characters and in the picture's own units.
const (
	columns, rows  = 120, 30
	charWide, high = 7.25, 17
	margin         = 12
	longestWait    = 1500 * time.Millisecond
	atTheEnd       = 8 * time.Second // before it begins again
)

// The kinds of lines, and how long a reader gets for one at least.
type kind struct {
	class string
	wait  time.Duration
}

var (
	says    = kind{"s", 2500 * time.Millisecond} // the demo itself
	command = kind{"c", 900 * time.Millisecond}
	output  = kind{"", 180 * time.Millisecond}
)

func kindOf(text string) kind {
	switch trimmed := strings.TrimSpace(text); {
	case strings.HasPrefix(text, "== "):
		return says
	case strings.HasPrefix(trimmed, "root@"), strings.HasPrefix(trimmed, "# "):
		return command
	}
	return output
}

type line struct {
	kind
	at   time.Duration // since the begin, waits cut short
	text string
}

type recording struct {
	lines []line
	came  time.Duration // when the last line came
}

// add takes a line that came at a time; a long one becomes several.
func (r *recording) add(came time.Duration, text string) {
	at := time.Duration(0)
	if n := len(r.lines); n > 0 {
		at = r.lines[n-1].at + max(min(came-r.came, longestWait), r.lines[n-1].wait)
	}
	r.came = came
	for _, part := range wrapped(text) {
		r.lines = append(r.lines, line{kindOf(text), at, part})
	}
}

// wrapped breaks a line as a terminal does.
func wrapped(text string) (parts []string) {
	for utf8.RuneCountInString(text) > columns {
		cut := len(string([]rune(text)[:columns]))
		parts, text = append(parts, text[:cut]), text[cut:]
	}
	return append(parts, text)
}

// svg is the whole text, moved up by one animation. Who shows no animations shows the
// end of it.
func (r *recording) svg() string {
	if len(r.lines) == 0 {
		return ""
	}
	whole := r.lines[len(r.lines)-1].at + atTheEnd
	up := func(shown int) int { return (rows - shown) * high }
	var text, frames strings.Builder
	for n, l := range r.lines {
		last := n+1 == len(r.lines)
		if last || r.lines[n+1].at != l.at {
			fmt.Fprintf(&frames, "%.2f%%{transform:translateY(%dpx)}", 100*l.at.Seconds()/whole.Seconds(), up(n+1))
		}
		if l.text == "" {
			continue
		}
		class := ""
		if l.class != "" {
			class = fmt.Sprintf(" class=%q", l.class)
		}
		fmt.Fprintf(&text, "<text%s y=\"%d\">%s</text>\n", class, (n+1)*high, html.EscapeString(l.text))
	}
	wide, tall := int(columns*charWide)+2*margin, rows*high+2*margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="monospace" font-size="12" xml:space="preserve">
<style>
text{fill:#c9d1d9;white-space:pre}.s{fill:#e3b341}.c{fill:#7ee787;font-weight:bold}
#all{transform:translateY(%dpx);animation:up %.1fs steps(1,end) infinite}
@keyframes up{%s}
@media (prefers-reduced-motion:reduce){#all{animation:none}}
</style>
<rect width="100%%" height="100%%" rx="6" fill="#0d1117"/>
<svg x="%d" y="%d" width="%d" height="%d"><g id="all">
%s</g></svg>
</svg>
`, wide, tall, up(len(r.lines)), whole.Seconds(), frames.String(), margin, margin, wide-2*margin, rows*high+4, text.String())
}
