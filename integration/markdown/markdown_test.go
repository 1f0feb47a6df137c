package markdown

import (
	"strings"
	"testing"
)

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
		if got := Unlike(shown, screen); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q; want %q", shown, got, want)
		}
	}
	if got := OnScreen("10 %\r20 %\r\n\x1b[1mdone\x1b[0m  \r\n\r\n"); got != "20 %\ndone\n" {
		t.Errorf("%q", got)
	}
}

func TestBlocksAreReadWithTheirMarks(t *testing.T) {
	const text = "# Title\n\n<!-- a new host -->\n<!-- runs until stopped -->\n```\na\nb\n```\n\n```yaml\nc: d\n```\n<!-- not run: no reason -->\n```sh\ne\n```\n```\nmake x y=z # w\n```\n"
	blocks, err := Read("g.md", text)
	check(t, err)
	want := []struct {
		at  string
		run bool
	}{{"g.md:5", true}, {"g.md:10", false}, {"g.md:14", false}, {"g.md:17", false}}
	if len(blocks) != len(want) {
		t.Fatalf("%d blocks: %+v", len(blocks), blocks)
	}
	for i, b := range blocks {
		if b.String() != want[i].at || b.IsRun() != want[i].run {
			t.Errorf("block %d is at %s, run %v; want %+v", i, b, b.IsRun(), want[i])
		}
	}
	if len(blocks[0].Marks) != 2 || blocks[0].Text != "a\nb\n" || len(blocks[3].Targets()) != 1 {
		t.Errorf("%+v", blocks)
	}
	for name, bad := range map[string]string{
		"an unknown mark":      "<!-- not ran: x -->\n```\na\n```\n",
		"an unknown language":  "```console\n$ a\n```\n",
		"a mark of no block":   "<!-- needs a real cluster -->\nText.\n```\na\n```\n",
		"a block without end":  "```\na\n",
		"no reason why not":    "<!-- not run: -->\n```\na\n```\n",
		"shown, and not run":   "<!-- not run: x -->\n```\na\n```\n<!-- shows -->\n```text\nb\n```\n",
		"a mark over two rows": "<!-- needs a\nreal cluster -->\n```\na\n```\n",
	} {
		if blocks, err := Read("g.md", bad); err == nil {
			t.Errorf("%s is taken: %+v", name, blocks)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
