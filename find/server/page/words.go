package page

import (
	"html/template"
	"strconv"
	"strings"
	"time"

	"teleport-update/find/rollout"
)

// words are the functions of the templates.
var words = template.FuncMap{
	"clock":   clock,
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"plain":   plain,
	"hosts":   hostsWord,
	"number":  thousands,
}

// clock formats a moment for people; a zero one is empty.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return rollout.Clock(t)
}

// plain turns a name of the API into words: on_target becomes "on target".
func plain(name string) string { return strings.ReplaceAll(name, "_", " ") }

// hostsWord returns a number of hosts in words.
func hostsWord(n int) string { return plural(n, "host") }

// plural returns a number of things in words.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}

// thousands writes a number with a comma for each three digits.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
