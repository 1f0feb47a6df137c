package view

import (
	"cmp"
	"fmt"
	"io"

	"teleport-update/internal/console"
	"teleport-update/internal/space"
)

// Plan is what a command would do. Making it changes nothing. With an error, the
// one that the command would end with, it holds what was known by then.
type Plan struct {
	Nothing  string // why nothing would happen; the rest is empty then
	From     string
	To       string
	Download string // where from; empty when the version is on disk
	Bytes    int64  // of the download; -1 when the server does not say
	Need     int64  // bytes that must be free beside the versions
	Free     int64  // bytes that are
	Database string
	Agent    string
}

// Text writes the plan for a person, as far as it is known.
func (p Plan) Text(w io.Writer) {
	if p.Nothing != "" {
		fmt.Fprintf(w, "Nothing would be done: %s.\n", console.Line(p.Nothing))
	}
	if p.To == "" {
		return
	}
	line := lines(w, "%-10s %s\n")
	line("From", cmp.Or(p.From, "none"))
	line("To", p.To)
	line("Database", p.Database)
	line("Agent", p.Agent)
	if p.Free == 0 && p.Need == 0 {
		return // it did not come so far
	}
	switch {
	case p.Download == "":
		line("Download", "none, the version is on disk")
	case p.Bytes < 0:
		line("Download", p.Download+", of unknown size")
	default:
		line("Download", fmt.Sprintf("%s, %s", p.Download, space.Format(p.Bytes)))
	}
	line("Space", fmt.Sprintf("%s needed, %s free", space.Format(p.Need), space.Format(p.Free)))
	fmt.Fprintln(w, "Nothing was changed.")
}
