//go:build hosts

package guides

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/host"
)

// isShown reports whether the block is what one sees after the commands before it.
func (b block) isShown() bool {
	_, ok := b.mark("shows")
	return ok
}

// onTerminal is a command as a person runs it: what it prints differs there.
func onTerminal(c host.Command) host.Command {
	c.Env = append(slices.Clone(c.Env), "TERM=xterm", "GUIDE="+c.Args[2])
	// So wide that no line is broken: that would depend on what differs from host to host.
	c.Args = []string{"script", "--quiet", "--return", "--command", `stty cols 500; sh -euc "$GUIDE"`, "/dev/null"}
	return c
}

// compare holds what a guide shows to what the commands before it printed.
func (s *scene) compare(b block) {
	s.t.Helper()
	if s.server != nil {
		host.Wait(s.t, 30*time.Second, func() error {
			out, _ := s.server.Output()
			if problem := unlike(b.text, onScreen(out)); problem != "" {
				return fmt.Errorf("%s: %s; the server prints\n%s", b, problem, out)
			}
			return nil
		})
		return
	}
	if problem := unlike(b.text, onScreen(s.seen)); problem != "" {
		s.t.Errorf("%s: %s; on the screen was\n%s", b, problem, onScreen(s.seen))
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// onScreen is what stays on a terminal: the last text of each line.
func onScreen(output string) string {
	var lines []string
	for line := range strings.SplitSeq(escapes.ReplaceAllString(output, ""), "\n") {
		parts := strings.Split(strings.TrimRight(line, "\r "), "\r")
		lines = append(lines, strings.TrimRight(parts[len(parts)-1], " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// unlike says in what a screen is not as a guide shows it. In a line, … is for any
// text; as a line of its own, for any lines.
func unlike(shown, screen string) string {
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

func TestWhatAGuideShowsIsComparedWithTheScreen(t *testing.T) {
	const screen = "downloading\nversion 1.2.3 is proven\nTeleport 1.2.3 is installed.\n"
	for shown, want := range map[string]string{
		screen:                              "",
		"…\nTeleport 1.2.3 is installed.\n": "",
		"downloading\n…\nTeleport … is installed.\n": "",
		"…\n":                               "",
		"…\nTeleport 1.2.4 is installed.\n": "1.2.4",
		"Teleport 1.2.3 is installed.\n":    "1.2.3",
		"downloading\n":                     "more comes",
		"…\nversion 1.2.3 is proven\n":      "more comes",
		screen + "and more\n":               "and more",
	} {
		if got := unlike(shown, screen); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q; want %q", shown, got, want)
		}
	}
	if got := onScreen("10 %\r20 %\r\n\x1b[1mdone\x1b[0m  \r\n\r\n"); got != "20 %\ndone\n" {
		t.Errorf("%q", got)
	}
}

// A reader compares what is on the screen with the page, after each command.
func TestGuidesShowWhatOneSees(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, guide := range guides(t) {
		blocks, err := blocksOf(guide, file(t, guide))
		check(t, err)
		if ofACheckout(guide) {
			continue
		}
		for _, b := range unshown(blocks) {
			t.Errorf("%s: what one sees after the commands is not shown", b)
		}
		for _, b := range blocks {
			if b.isShown() {
				shown++
			}
		}
	}
	if shown < 40 {
		t.Errorf("only %d blocks show what one sees", shown)
	}
}

// unshown are the blocks that are run, print something, and are followed by nothing
// that shows it.
func unshown(blocks []block) (list []block) {
	for i, b := range blocks {
		_, silent := b.mark("silent")
		if b.isRun() && !silent && (i+1 == len(blocks) || !blocks[i+1].isShown()) {
			list = append(list, b)
		}
	}
	return list
}

func TestACommandWithoutItsOutputIsSeen(t *testing.T) {
	const run, shows = "```\na\n```\n", "<!-- shows -->\n```text\nb\n```\n"
	for text, want := range map[string]int{
		run: 1, run + shows: 0, run + run + shows: 1, "<!-- silent -->\n" + run: 0, "<!-- not run: x -->\n" + run: 0, run + "```text\nb\n```\n": 1,
	} {
		blocks, err := blocksOf("g.md", text)
		check(t, err)
		if got := len(unshown(blocks)); got != want {
			t.Errorf("%q: %d; want %d", text, got, want)
		}
	}
}
