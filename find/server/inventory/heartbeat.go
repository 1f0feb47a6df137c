package inventory

import (
	"encoding"
	"strconv"
	"strings"

	"teleport-update/find/rollout"
)

// parseHeartbeat reads a report strictly. A report in the updater's own form takes a tenth of the
// time of others. Those are read again with errors that say what is wrong.
func parseHeartbeat(body []byte) (b rollout.Heartbeat, err error) {
	if b, ok := quickHeartbeat(string(body)); ok {
		return b, nil
	}
	return b, rollout.DecodeJSON(body, &b)
}

// quickHeartbeat reads a report with its fields in order, without spaces between them and without
// escapes. It returns false for any other report.
func quickHeartbeat(text string) (b rollout.Heartbeat, ok bool) {
	q := quick{rest: text, ok: true}
	q.open()
	q.text("host_id", &b.HostID)
	q.number("sequence", &b.Sequence)
	q.text("boot_id", &b.BootID)
	q.text("updater_id", &b.UpdaterID)
	q.text("hostname", &b.Hostname)
	q.text("group", &b.Group)
	q.word("version", &b.Version)
	q.text("edition", &b.Edition)
	q.text("arch", &b.Arch)
	q.yes("pinned", &b.Pinned)
	q.yes("disabled", &b.Disabled)
	q.yes("unhealthy", &b.Unhealthy)
	q.yes("below_minimum", &b.BelowMinimum)
	q.yes("unsigned", &b.Unsigned)
	q.word("told", &b.Told)
	if q.name("outcome") {
		b.Outcome = new(rollout.Outcome)
		q.open()
		q.word("target", &b.Outcome.Target)
		q.word("state", &b.Outcome.State)
		q.text("error", &b.Outcome.Error)
		q.word("time", &b.Outcome.Time)
		q.word("backs_off_until", &b.Outcome.BacksOffUntil)
		q.close()
	}
	q.close()
	return b, q.ok && q.rest == ""
}

// quick reads JSON objects field by field. ok becomes false at the first text that it does not take.
type quick struct {
	rest  string
	first bool // no field of the object has been read
	ok    bool
}

func (q *quick) open() { q.ok, q.first = q.skip("{") && q.ok, true }

func (q *quick) close() { q.ok, q.first = q.skip("}") && q.ok, false }

func (q *quick) skip(prefix string) (there bool) {
	q.rest, there = strings.CutPrefix(q.rest, prefix)
	return there
}

// name reports whether a field is the next one, and goes to its value.
func (q *quick) name(name string) bool {
	rest := q.rest
	if !q.first {
		rest = strings.TrimPrefix(rest, ",")
	}
	comma := len(rest) < len(q.rest)
	if comma == q.first || len(rest) < len(name)+3 {
		return false
	}
	quote, field, colon := rest[0], rest[1:len(name)+1], rest[len(name)+1:len(name)+3]
	if quote != '"' || field != name || colon != `":` {
		return false
	}
	q.rest, q.first = rest[len(name)+3:], false
	return true
}

// value reads a string of plain ASCII that is not empty.
func (q *quick) value() string {
	if q.skip(`"`) {
		for i := range len(q.rest) {
			switch c := q.rest[i]; {
			case c == '"' && i > 0:
				value := q.rest[:i]
				q.rest = q.rest[i+1:]
				return value
			case c < ' ' || c > '~' || c == '\\' || c == '"':
				q.ok = false
				return ""
			}
		}
	}
	q.ok = false
	return ""
}

func (q *quick) text(name string, into *string) {
	if q.name(name) {
		*into = q.value()
	}
}

func (q *quick) word(name string, into encoding.TextUnmarshaler) {
	if q.name(name) {
		value := q.value()
		q.ok = q.ok && into.UnmarshalText([]byte(value)) == nil
	}
}

func (q *quick) yes(name string, into *bool) {
	if q.name(name) {
		*into, q.ok = true, q.skip("true") && q.ok
	}
}

func (q *quick) number(name string, into *int64) {
	if !q.name(name) {
		return
	}
	digits := 0
	for digits < len(q.rest) && q.rest[digits] >= '0' && q.rest[digits] <= '9' {
		digits++
	}
	n, err := strconv.ParseInt(q.rest[:digits], 10, 64)
	q.ok = q.ok && err == nil && q.rest[0] != '0'
	*into, q.rest = n, q.rest[digits:]
}
