// Package console carries all text from a program to its standard output and error, and so
// to a terminal. Text from outside (a certificate's names, a server's words, the name of a process, a
// file that another user may write) drives no terminal, forges no line and hides nothing: only graphic
// characters pass. The sequences that draw are written here and nowhere else.
package console

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable reports whether a terminal only shows the character: it is a letter, a mark, a number, a sign or
// a space. Not printable are control characters of ASCII (C0) or Latin-1 (C1), characters of format (text
// from right to left, joiners, tags) or of private use, separators of lines, unassigned code points,
// non-characters, and invisible characters.
func Printable(r rune) bool {
	if r < utf8.RuneSelf {
		return ' ' <= r && r < 0x7f
	}
	return r != utf8.RuneError && unicode.IsGraphic(r) && !unicode.In(r, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point)
}

// Line turns a text into one line, for a log, an error, a cell of a table. It joins lines with
// semicolons, and replaces each unprintable character by a space.
func Line(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	s = strings.ReplaceAll(s, "\n", "; ")
	return strings.Map(func(r rune) rune {
		if Printable(r) {
			return r
		}
		return ' '
	}, s)
}

// Excerpt is Line, cut after so many characters: for words whose length somebody else decides.
func Excerpt(s string, limit int) string {
	// A character is four bytes at most.
	cut := len(s) > 4*limit
	if cut {
		s = s[:4*limit]
	}
	s = Line(s)
	n := 0
	for at := range s {
		if n == limit {
			return s[:at] + "…"
		}
		n++
	}
	if cut {
		s += "…"
	}
	return s
}

func unprintable(r rune) bool { return !Printable(r) }

// escaped appends text with unprintable characters, except line ends and tabs, in the form of JSON:
// "\u001b". In JSON, which has no such character outside of a string, and within double quotes in
// YAML, the value is the same. Bytes that are no character become \ufffd.
func escaped(to []byte, text string) []byte {
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t' || Printable(r):
			to = utf8.AppendRune(to, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			to = fmt.Appendf(to, `\u%04x\u%04x`, high, low)
		default:
			to = fmt.Appendf(to, `\u%04x`, r)
		}
	}
	return to
}
