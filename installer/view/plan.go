package view

import (
	"cmp"
	"fmt"
	"io"

	"teleport-update/internal/console"
	"teleport-update/internal/space"
)

// Plan describes what a command would do. Making a plan changes nothing. If the command would end with an error, the plan holds what was
// known by then.
type Plan struct {
	Nothing  string   // why the version would not change
	Repairs  []string // damage of the active version that would be repaired; or why it would not
	From     string
	To       string
	Download string // where from; empty when the version is on disk
	Bytes    int64  // of the download; -1 when the server does not say
	Need     int64  // bytes that must be free beside the versions
	Free     int64  // bytes that are free
	Database string
	Agent    string
}

// Text writes the plan for a person, as far as it is known.
func (p Plan) Text(w io.Writer) {
	line := lines(w, "%-10s %s\n")
	idle := len(p.Repairs) == 0 && p.Agent == ""
	switch why := console.Line(p.Nothing); {
	case why != "" && idle:
		fmt.Fprintf(w, "Nothing would be done: %s.\n", why)
	case why != "":
		fmt.Fprintf(w, "The version would not change: %s.\n", why)
	}
	for _, r := range p.Repairs {
		line("Repair", r)
	}
	if p.To == "" {
		line("Agent", p.Agent)
		if !idle {
			fmt.Fprintln(w, "Nothing was changed.")
		}
		return
	}
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
