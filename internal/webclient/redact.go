package webclient

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const redacted = "xxxxx"

// Redact returns a URL in a form that may be logged or shown: without user info and fragment, and
// with the values of its query replaced; the rest stays as written. A text that cannot be parsed
// loses everything up to its last "@" and its whole query.
func Redact(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		return redactText(s)
	}
	s, _, _ = strings.Cut(s, "#")
	s, query, hasQuery := strings.Cut(s, "?")
	if u.User != nil {
		before, rest, _ := strings.Cut(s, "//")
		authority, _, _ := strings.Cut(rest, "/")
		s = before + "//" + rest[strings.LastIndexByte(authority, '@')+1:]
	}
	if hasQuery {
		s += "?" + redactQuery(query)
	}
	return s
}

// RedactError returns an error with the same chain whose text has every URL in it redacted,
// including those that net/url and net/http put there. nil stays nil.
func RedactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := redactURLErrors(text, err)
	clean = urlInText.ReplaceAllStringFunc(clean, Redact)
	if clean == text {
		return err
	}
	return &reworded{text: clean, err: err}
}

// reworded is an error with another text.
type reworded struct {
	text string
	err  error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.err }

var urlInText = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"<>]*[^\s"<>:;,]`) // punctuation after it is the text's

// redactURLErrors replaces the URL of each *url.Error below err, whole. The pattern for URLs in a
// text could end early in a URL with a quote or a space.
func redactURLErrors(text string, err error) string {
	if e, ok := err.(*url.Error); ok && e.URL != "" {
		clean := Redact(e.URL)
		text = strings.ReplaceAll(text, strconv.Quote(e.URL), strconv.Quote(clean))
		text = strings.ReplaceAll(text, e.URL, clean)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			text = redactURLErrors(text, err)
		}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return redactURLErrors(text, inner)
	}
	return text
}

// redactText is for texts that are no URL. A password may hold any character, so everything before
// the last "@" may belong to one.
func redactText(s string) string {
	begin, rest := "", s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		begin, rest = scheme+"://", after
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	return begin + rest
}

func redactQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, ok := strings.Cut(part, "=")
		switch {
		case part == "":
		case ok && !strings.Contains(name, ";"):
			parts[i] = name + "=" + redacted
		default:
			parts[i] = redacted
		}
	}
	return strings.Join(parts, "&")
}
