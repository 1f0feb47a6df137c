// Package plaintext reads text as editors and shells of Windows save it: with a byte order mark
// before it, in UTF-8 or, by PowerShell's `>`, in UTF-16. The mark is invisible, and changes a
// secret that begins with it.
package plaintext

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	utf8Mark  = "\xef\xbb\xbf"
	utf16Less = "\xff\xfe" // little-endian
	utf16Most = "\xfe\xff" // big-endian
)

// UTF8 returns a text in UTF-8 without a byte order mark. Without a mark the encoding is unknown,
// and a text that is not in the encoding of its mark is damaged: both stay as they are.
func UTF8(data []byte) []byte {
	if rest, marked := bytes.CutPrefix(data, []byte(utf8Mark)); marked {
		return rest
	}
	order := byteOrder(data)
	if order == nil || len(data)%2 != 0 {
		return data
	}
	text := make([]byte, 0, len(data)/2)
	for rest := data[2:]; len(rest) > 0; {
		r := rune(order.Uint16(rest))
		rest = rest[2:]
		if utf16.IsSurrogate(r) {
			if len(rest) == 0 {
				return data
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(rest))); r == utf8.RuneError {
				return data
			}
			rest = rest[2:]
		}
		text = utf8.AppendRune(text, r)
	}
	return text
}

// IsUTF16 reports whether a text begins with the byte order mark of UTF-16.
func IsUTF16(data []byte) bool { return byteOrder(data) != nil }

// byteOrder returns the byte order of a text in UTF-16; nil if it has no such mark.
func byteOrder(data []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(data, []byte(utf16Less)):
		return binary.LittleEndian
	case bytes.HasPrefix(data, []byte(utf16Most)):
		return binary.BigEndian
	}
	return nil
}
