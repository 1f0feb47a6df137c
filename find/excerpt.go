package find

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Excerpt returns the start of a server's text, at most limit bytes of it, for a log line or a
// terminal: characters that are not graphic become spaces, and spaces are joined.
func Excerpt(data []byte, limit int) string {
	// Four bytes of input per byte of output are plenty of spaces to join, and
	// a megabyte of them costs nothing.
	cut := len(data) > 4*limit
	if cut {
		data = data[:4*limit]
	}
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, string(data))
	clean = strings.Join(strings.Fields(clean), " ")
	if len(clean) > limit {
		clean, cut = clean[:limit], true
		for !utf8.ValidString(clean) {
			clean = clean[:len(clean)-1]
		}
	}
	if cut {
		clean += "…"
	}
	return clean
}
