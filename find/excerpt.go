package find

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Excerpt returns the start of what a server sent, at most limit bytes of it,
// fit to stand in a log line and on a terminal: what is not graphic becomes a
// space, and spaces are joined.
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
