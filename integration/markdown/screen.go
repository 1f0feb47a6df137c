package markdown

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"teleport-update/integration/host"
)

// OnTerminal is a command as a person runs it: what it prints differs there.
func OnTerminal(c host.Command) host.Command {
	c.Env = append(slices.Clone(c.Env), "TERM=xterm", "GUIDE="+c.Args[2])
	// So wide that no line is broken: that would depend on what differs from host to host.
	c.Args = []string{"script", "--quiet", "--return", "--command", `stty cols 500; sh -euc "$GUIDE"`, "/dev/null"}
	return c
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// OnScreen is what stays on a terminal: the last text of each line.
func OnScreen(output string) string {
	var lines []string
	for line := range strings.SplitSeq(escapes.ReplaceAllString(output, ""), "\n") {
		parts := strings.Split(strings.TrimRight(line, "\r "), "\r")
		lines = append(lines, strings.TrimRight(parts[len(parts)-1], " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// Unlike says in what a screen is not as a guide shows it. In a line, … is for any
// text; as a line of its own, for any lines.
func Unlike(shown, screen string) string {
	pattern := "^"
	for line := range strings.Lines(shown) {
		if strings.TrimSpace(line) == "…" {
			pattern += "(?:.*\n)*?"
			continue
		}
		for i, part := range strings.Split(strings.TrimRight(line, "\n"), "…") {
			if i > 0 {
				pattern += ".*"
			}
			pattern += regexp.QuoteMeta(part)
		}
		pattern += "\n"
		if !regexp.MustCompile(pattern).MatchString(screen) {
			return fmt.Sprintf("nothing like %q comes there", strings.TrimSpace(line))
		}
	}
	if !regexp.MustCompile(pattern + "$").MatchString(screen) {
		return "more comes after the last line"
	}
	return ""
}
