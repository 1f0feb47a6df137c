// Package markdown reads the guides: which of their blocks are commands, what is said of
// each, and whether a screen looks as a guide shows it. Whoever runs the commands brings the hosts.
package markdown

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A guide is a Markdown file. Every fenced block in it is one of these, so that a
// new command cannot be printed without being run:
//
//	without a language, or sh      commands: run on a host, in the order of the file
//	yaml, json, ini, text          content: not commands
//
// and comments before a block say more of it:
//
//	<!-- a new host -->            what follows runs on another host than before
//	<!-- a new host: with the package teleport --> see from for what else there is
//	<!-- an image build -->        … in the root of an image that is mounted at /mnt/image
//	<!-- runs until stopped -->    a server: the next blocks run while it does
//	<!-- file: NAME -->            the content is put into that file
//	<!-- file: NAME from OTHER --> that file is copied first
//	<!-- appended to: NAME -->     the content is put at the end of that file
//	<!-- on: HOST -->              this and what follows is on the host of that name: integration/fleetguides
//	                               runs pages with this mark
//	<!-- later: DURATION -->       so much time passes before, by the clock of the find server
//	<!-- shows -->                 what one sees after the commands before, on a terminal;
//	                               … is for what differs from run to run
//	<!-- silent -->                the commands print nothing
//	<!-- needs a real cluster -->  not run
//	<!-- not run: REASON -->       not run
//
// Other comments are no marks: those around figures (see tools/figures), and those
// that keep a place for what is to be written there.
//
// Commands that are "make TARGET" are not run; the targets must be there. The same
// holds for the pages that belong to a checkout, and for their "go test" lines:
// some take hours.
type Block struct {
	Guide    string
	Line     int
	Language string // "" for commands
	Marks    []string
	Text     string
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Guide, b.Line) }

// Mark returns what follows a mark of that kind.
func (b Block) Mark(kind string) (string, bool) {
	for _, m := range b.Marks {
		if m == kind {
			return "", true
		}
		if rest, ok := strings.CutPrefix(m, kind+": "); ok {
			return rest, true
		}
	}
	return "", false
}

// IsRun reports whether the block holds commands to be run.
func (b Block) IsRun() bool {
	_, needsCluster := b.Mark("needs a real cluster")
	_, notRun := b.Mark("not run")
	return b.IsCommands() && !needsCluster && !notRun && len(b.Targets()) == 0
}

func (b Block) IsCommands() bool {
	switch b.Language {
	case "", "sh":
		return true
	}
	return false
}

// NeedsHosts reports whether a page has a block that says which of several hosts it is for.
func NeedsHosts(blocks []Block) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool {
		_, ok := b.Mark("on")
		return ok
	})
}

// IsShown reports whether the block is what one sees after the commands before it.
func (b Block) IsShown() bool {
	_, ok := b.Mark("shows")
	return ok
}

// Targets returns those of make, if the block holds nothing else.
func (b Block) Targets() (targets []string) {
	for line := range strings.Lines(b.Text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] != "make" || len(fields) < 2 {
			return nil
		}
		for _, f := range fields[1:] {
			if !strings.Contains(f, "=") {
				targets = append(targets, f)
			}
		}
	}
	return targets
}

var (
	comment = regexp.MustCompile(`^<!--\s*(.*?)\s*-->$`)
	// knownMark keeps a mark with a slip of the pen from being none.
	noMark    = regexp.MustCompile(`^(figures: .+|/figures|to be written: .+|written from .+: begin|end)$`)
	knownMark = regexp.MustCompile(`^(shows|silent|a new host(: with .+)?|an image build|runs until stopped|file: \S+( from \S+)?|on: \S+|appended to: \S+|later: \S+|needs a real cluster(: .+)?|not run: .+)$`)
)

// Read reads the fenced blocks of a guide.
func Read(guide, text string) (blocks []Block, err error) {
	var marks []string
	var open *Block
	for i, line := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case open != nil && trimmed == "```":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		case strings.HasPrefix(trimmed, "```"):
			open = &Block{Guide: guide, Line: i + 1, Language: strings.TrimPrefix(trimmed, "```"), Marks: marks}
			marks = nil
			if !open.IsCommands() && !strings.Contains(" yaml json ini text mermaid ", " "+open.Language+" ") {
				return nil, fmt.Errorf("%s:%d: a block in %q: is it commands (no language) or content (yaml, json, ini, mermaid, text)?", guide, i+1, open.Language)
			}
		case strings.HasPrefix(trimmed, "<!--"):
			m := comment.FindStringSubmatch(trimmed)
			if m != nil && noMark.MatchString(m[1]) {
				continue
			}
			if m == nil || !knownMark.MatchString(m[1]) {
				return nil, fmt.Errorf("%s:%d: %s is not a mark that is known", guide, i+1, trimmed)
			}
			marks = append(marks, m[1])
		case trimmed != "" && len(marks) > 0:
			return nil, fmt.Errorf("%s:%d: the marks before this line belong to no block", guide, i+1)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block has no end", guide, open.Line)
	}
	for i, b := range blocks {
		if b.IsShown() && (i == 0 || !blocks[i-1].IsRun()) {
			return nil, fmt.Errorf("%s shows what commands print, and none are run before it", b)
		}
	}
	return blocks, nil
}
