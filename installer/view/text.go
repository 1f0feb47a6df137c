package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/internal/console"
)

// Text writes the report for a person: the state first, then each condition, faults before settings and notes. A condition has three lines:
// what is wrong, since when, and what to do.
func (r Status) Text(w io.Writer) {
	line := lines(w, "%-15s %v\n")
	if r.State == decision.Idle {
		line("State", fmt.Sprintf("%s: %s", r.State, r.Explanation))
	} else {
		line("State", string(r.State))
	}
	for n, c := range r.Conditions {
		if r.State == decision.Idle && c.Message == r.Explanation {
			continue
		}
		line(headings[c.Severity], c.What)
		line("  since", Since(c, r.now))
		line("  do", c.Do)
		if n == 0 && r.State.Alarming() {
			line("  explained", fmt.Sprintf("`teleport-update status --explain %s`", c.Type))
		}
	}
	line("Agent", r.Agent.Text(r.now))
	none := "none"
	for _, c := range r.Conditions {
		if c.Type == decision.RecordsBroken {
			none = "unknown"
		}
	}
	line("Installed", versionText(r.VersionInstalled, r.EditionInstalled, none))
	line("Desired", versionText(r.VersionDesired, r.EditionDesired, "unknown"))
	line("  asked at", r.at(r.DesiredCheckedAt))
	line("  now", textOr(r.DesiredError, ""))
	line("Previous", versionText(r.VersionPrevious, r.EditionPrevious, none))
	line("Proxy", textOr(r.Proxy, "none"))
	line("Group", textOr(r.Group, "none"))
	line("Enabled", r.enabled())
	line("Releases", r.releases())
	line("  CA file", textOr(r.Releases.CAFile, ""))
	line("Updater", r.updater())
	if r.LastResult != nil {
		line("Last update", fmt.Sprintf("%s, to %s, at %s", *r.LastResult, textOr(r.LastTarget, "?"), r.at(r.UpdateTimeLast)))
	}
	line("  success", r.at(r.LastSuccess))
	line("  error", textOr(r.LastError, ""))
	if r.FailedVersion != nil {
		line("Failed", fmt.Sprintf("%s, %d %s; next attempt at %s", *r.FailedVersion, *r.FailedAttempts, decision.Plural(*r.FailedAttempts,
			"time", "times"), r.at(r.NextAttempt)))
		line("  error", textOr(r.FailedError, ""))
	}
	line("Package left", textOr(r.PackageLeft, ""))
	if o := r.OpenTransaction; o != nil {
		line("Transaction", fmt.Sprintf("%s to %s, phase %s, since %s", textOr(o.From, "nothing"), o.To, o.Phase, r.at(&o.Since)))
	}
}

// headings begin the lines of conditions.
var headings = map[decision.Severity]string{decision.Fault: "Fault", decision.Blind: "Unknown", decision.Busy: "Also",
	decision.Setting: "Setting", decision.Note: "Note"}

func (r Status) enabled() string {
	switch {
	case r.unread:
		return "unknown"
	case r.UpdatesEnabled:
		return "yes"
	}
	return "no"
}

func (r Status) releases() string {
	if len(r.Releases.Templates) == 0 {
		return "the usual place"
	}
	return strings.Join(r.Releases.Templates, ", then ")
}

func (r Status) updater() string {
	parts := []string{"version " + textOr(r.Updater.Version, "unknown")}
	if r.Updater.LastRun != nil {
		parts = append(parts, "last run ended at "+r.at(r.Updater.LastRun))
	}
	if r.Updater.NextRun != nil {
		parts = append(parts, "next run at "+r.at(r.Updater.NextRun))
	}
	return strings.Join(parts, ", ")
}

// lines writes a name and a value on each line, the values one below the other. It leaves out an empty value.
func lines(w io.Writer, format string) func(name, value string) {
	return func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, format, name+":", console.Line(value))
		}
	}
}

// Since returns since when a condition holds.
func Since(c decision.Condition, now time.Time) string {
	if c.Since == nil {
		return "not recorded, seen now"
	}
	return At(*c.Since, now)
}

// at returns a time, and how far off it is.
func (r Status) at(t *time.Time) string {
	if t == nil {
		return ""
	}
	return At(*t, r.now)
}

// At returns a time in the usual form, and how far it is from now.
func At(t, now time.Time) string {
	text := t.Format(time.RFC3339)
	switch d := now.Sub(t).Round(time.Second); {
	case now.IsZero():
		return text
	case d >= time.Second:
		return text + " (" + span(d) + " ago)"
	case d <= -time.Second:
		return text + " (in " + span(-d) + ")"
	}
	return text + " (now)"
}

// span returns a duration in its largest unit.
func span(d time.Duration) string {
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if d >= unit.length {
			n := int(d / unit.length)
			return fmt.Sprintf("%d %s", n, decision.Plural(n, unit.name, unit.name+"s"))
		}
	}
	return fmt.Sprintf("%d s", int(d/time.Second))
}

func versionText(v, e *string, none string) string {
	if v == nil {
		return none
	}
	return *v + " (" + textOr(e, "edition unknown") + ")"
}

func textOr(s *string, other string) string {
	if s == nil {
		return other
	}
	return *s
}
