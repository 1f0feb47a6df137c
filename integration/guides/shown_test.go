//go:build hosts

package guides

import (
	"fmt"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/markdown"
)

// compare holds what a guide shows to what the commands before it printed.
func (s *scene) compare(b markdown.Block) {
	s.t.Helper()
	if s.server != nil {
		host.Wait(s.t, 30*time.Second, func() error {
			out, _ := s.server.Output()
			if problem := markdown.Unlike(b.Text, markdown.OnScreen(out)); problem != "" {
				return fmt.Errorf("%s: %s; the server prints\n%s", b, problem, out)
			}
			return nil
		})
		return
	}
	if problem := markdown.Unlike(b.Text, markdown.OnScreen(s.seen)); problem != "" {
		s.t.Errorf("%s: %s; on the screen was\n%s", b, problem, markdown.OnScreen(s.seen))
	}
}

// A reader compares what is on the screen with the page, after each command.
func TestGuidesShowWhatOneSees(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, guide := range guides(t) {
		blocks, err := markdown.Read(guide, file(t, guide))
		check(t, err)
		if ofACheckout(guide) {
			continue
		}
		for _, b := range unshown(blocks) {
			t.Errorf("%s: what one sees after the commands is not shown", b)
		}
		for _, b := range blocks {
			if b.IsShown() {
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
func unshown(blocks []markdown.Block) (list []markdown.Block) {
	for i, b := range blocks {
		_, silent := b.Mark("silent")
		if b.IsRun() && !silent && (i+1 == len(blocks) || !blocks[i+1].IsShown()) {
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
		blocks, err := markdown.Read("g.md", text)
		check(t, err)
		if got := len(unshown(blocks)); got != want {
			t.Errorf("%q: %d; want %d", text, got, want)
		}
	}
}
