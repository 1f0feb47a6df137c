package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Clock is how people read a moment.
func Clock(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04 UTC") }

// ClockFrom is Clock for a moment before which nothing happens: the minute that it names is not too early.
func ClockFrom(t time.Time) string { return Clock(t.Add(time.Minute - 1)) }

// roughly is a duration for people.
func roughly(d time.Duration) string {
	if d < 2*time.Hour {
		return fmt.Sprintf("%d minutes", int(d.Round(time.Minute)/time.Minute))
	}
	return fmt.Sprintf("%d hours", int(d.Round(time.Hour)/time.Hour))
}

// hosts is a number of hosts in words.
func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

func ofHosts(part, whole int) string { return fmt.Sprintf("%d of %s", part, hosts(whole)) }

func haveOf(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func areOf(whole int) string {
	if whole == 1 {
		return "is"
	}
	return "are"
}

// verb is a verb of so many hosts.
func verb(plural string, n int) string {
	switch {
	case n != 1:
		return plural
	case strings.HasSuffix(plural, "o"):
		return plural + "es"
	}
	return plural + "s"
}

// some names the first ones of a list.
func some(names []string) string {
	if len(names) > maxNamed {
		names = append(slices.Clone(names[:maxNamed]), "…")
	}
	return strings.Join(names, ", ")
}

func nameOf(hostname, id string) string {
	if hostname == "" {
		return excerpt(id)
	}
	return fmt.Sprintf("%s (%s)", excerpt(hostname), excerpt(id))
}

func notEmpty(s string) *string {
	if s == "" {
		return nil
	}
	if len(s) > maxMessage {
		s = s[:maxMessage] + "…"
	}
	s = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s), "")
	return &s
}

// maxMessage bounds the text of one host in a rollout.
const maxMessage = 300

// excerpt shortens user input for one line.
func excerpt(s string) string {
	if quoted := strconv.Quote(s); len(s) > 60 || quoted != `"`+s+`"` {
		return quoted[:min(len(quoted), 60)]
	}
	return s
}

// shellWord is a name as a word of a shell.
func shellWord(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == "" && !strings.HasPrefix(name, "-") &&
		name != "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
