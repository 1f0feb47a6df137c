// Package console is the way of all text from a program to its standard output and error, and so
// to a terminal. What came from outside (a certificate's names, a server's words, the name of a process, a
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

// Printable reports whether a terminal shows the character and does nothing else: it is a letter, a mark, a
// number, a sign or a space. It is not if it is a control character of ASCII (C0) or Latin-1 (C1), one of
// format (text from right to left, joiners, tags), of private use, a separator of lines, not assigned, not a
// character at all, or one that is not to be seen.
func Printable(r rune) bool {
	if r < utf8.RuneSelf {
		return ' ' <= r && r < 0x7f
	}
	return r != utf8.RuneError && unicode.IsGraphic(r) && !unicode.In(r, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point)
}

// Line makes one line of a text, for a log, an error, a cell of a table. Lines become parts with a
// semicolon between, and what is not printable becomes a space.
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

// escaped appends text with what is not printable in the form of JSON, but for ends of lines and tabs:
// "\u001b". In JSON, where no such character stands outside of a string, and within double quotes in
// YAML, it is the same value. Bytes that are no character become \ufffd.
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
