package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"teleport-update/find/rollout"
	"teleport-update/internal/console"
	releases "teleport-update/internal/version"
)

// outlookText returns the word, the sentence and the commands.
func outlookText(o rollout.Outlook) string {
	text := fmt.Sprintf("%s: %s\n", o.Word, console.Line(o.Sentence))
	wide := 0
	for _, c := range o.Commands {
		wide = max(wide, utf8.RuneCountInString(console.Line(c.Command)))
	}
	for _, c := range o.Commands {
		if c.Command == "" {
			text += fmt.Sprintf("    nothing: %s\n", console.Line(c.Does))
			continue
		}
		text += fmt.Sprintf("    teleport-find %-*s  (%s)\n", wide, console.Line(c.Command), console.Line(c.Does))
	}
	return text
}

// writeStatus prints a status for a person.
func writeStatus(w io.Writer, s fleetStatus) error {
	text := ""
	for _, why := range s.Server.Blocked {
		text += "blocked: " + console.Line(why) + "\n"
	}
	if text != "" {
		text += "\nbefore that:\n"
	}
	text += outlookText(s.Outlook)
	if s.Target != "" {
		text += fmt.Sprintf("\n%s → %s, schedule %s, strategy %s, updates %s\n", s.Start, s.Target, s.Schedule, s.Strategy, s.Mode)
	}
	for _, warning := range s.Warnings {
		text += "warning: " + console.Line(warning) + "\n"
	}
	if s.Server.Certificate != "" {
		text += "\n" + console.Line(s.Server.Certificate) + "\n"
	}
	for _, line := range s.Server.Webhooks {
		text += "\n" + console.Line(line) + "\n"
	}
	for _, line := range s.Server.Full {
		text += "\n" + console.Line(line) + "\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	for _, t := range []*table{groupTable(s), versionTable(s), failedTable(s)} {
		if len(t.rows) == 1 {
			continue
		}
		fmt.Fprintln(w)
		if err := t.print(w); err != nil {
			return err
		}
	}
	if s.MoreFailed > 0 {
		fmt.Fprintf(w, "and %d more: teleport-find hosts --state failed\n", s.MoreFailed)
	}
	return writeUncounted(w, s.Omitted, s.Unmatched)
}

// barWidth is the width of a group's bar, in characters.
const barWidth = 20

// bar has a character for each twentieth of the hosts, and at least one if there is any
// host. It is full only with the last host.
func bar(part, whole int) string {
	filled := 0
	if whole > 0 {
		filled = min(part, whole) * barWidth / whole
		if part > 0 {
			filled = max(1, filled)
		}
	}
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled) + "]"
}

func groupTable(s fleetStatus) *table {
	t := newTable("GROUP", "STATE", "ON "+string(s.Target), "", "UPDATING", "FAILED", "TIMED OUT", "NEXT")
	for _, g := range s.Groups {
		state := string(g.State)
		if g.Halted != nil {
			state = "halted" // Managed Updates call it failed, but perhaps no host failed
		}
		on := fmt.Sprintf("%d of %d", g.UpToDate, g.Present)
		if g.SoFar {
			on += " so far"
		}
		t.row(g.Name, state, bar(g.UpToDate, g.Present), on,
			strconv.Itoa(g.Updating), strconv.Itoa(g.Failed), strconv.Itoa(g.TimedOut), g.Next())
	}
	return t
}

// maxVersions is how many columns for versions fit beside the group.
const maxVersions = 8

func versionTable(s fleetStatus) *table {
	total := make(map[rollout.Semver]int)
	for _, g := range s.Groups {
		for v, n := range g.Versions {
			total[v] += n
		}
	}
	shown := slices.SortedFunc(maps.Keys(total), func(a, b rollout.Semver) int {
		return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a,
			b))
	})
	others := shown[min(len(shown), maxVersions):]
	shown = slices.SortedFunc(slices.Values(shown[:min(len(shown), maxVersions)]), func(a, b rollout.Semver) int {
		return cmp.Or(cmp.Compare(min(1, len(a)), min(1, len(b))), releases.Compare(string(a), string(b)))
	})
	head := []string{"HOSTS BY VERSION"}
	for _, v := range shown {
		head = append(head, cmp.Or(string(v), "no agent"))
	}
	if len(others) > 0 {
		head = append(head, "others")
	}
	t := newTable(head...)
	if len(shown) == 0 {
		return t
	}
	for _, g := range s.Groups {
		cells := []string{g.Name}
		for _, v := range shown {
			cells = append(cells, strconv.Itoa(g.Versions[v]))
		}
		if len(others) > 0 {
			n := 0
			for _, v := range others {
				n += g.Versions[v]
			}
			cells = append(cells, strconv.Itoa(n))
		}
		t.row(cells...)
	}
	return t
}

func failedTable(s fleetStatus) *table {
	t := newTable("FAILED HOST", "ID", "GROUP", "RUNS", "WHEN", "LAST ERROR")
	for _, h := range s.FailedHosts {
		when := ""
		if !h.Time.IsZero() {
			when = rollout.Clock(h.Time)
		}
		t.row(cmp.Or(h.Hostname, "-"), h.ID, h.Group, h.Version, when, firstLine(h.Error))
	}
	return t
}

func hostsName(n int) string {
	if n == 1 {
		return "1 host names"
	}
	return fmt.Sprintf("%d hosts name", n)
}

func writeUncounted(w io.Writer, omitted, unmatched map[string]int) error {
	text := ""
	for _, reason := range slices.Sorted(maps.Keys(omitted)) {
		text += fmt.Sprintf("not counted: %d (%s)\n", omitted[reason], reason)
	}
	for _, name := range slices.Sorted(maps.Keys(unmatched)) {
		text += fmt.Sprintf("group %s is in no schedule: %s it\n", strconv.Quote(name), hostsName(unmatched[name]))
	}
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w, "\n"+text)
	return err
}
