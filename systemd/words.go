package systemd

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unitLine is a line of a unit file, or several that belong together.
type unitLine struct {
	text string
	end  int // offset in the file at which a word could be added to it
}

// unitLines are the lines of a unit file without comments. One that ends with a backslash goes on in the
// next one that is no comment (systemd.syntax(7)).
func unitLines(content string) (all []unitLine) {
	goesOn := false
	offset := 0
	for line := range strings.Lines(content) {
		begin := offset
		offset += len(line)
		line = strings.TrimRight(line, "\r\n")
		if text := strings.TrimLeft(line, " \t"); strings.HasPrefix(text, "#") || strings.HasPrefix(text, ";") {
			continue
		}
		slashes := len(line) - len(strings.TrimRight(line, `\`))
		continues := slashes%2 == 1
		line = line[:len(line)-slashes%2]
		end := begin + len(strings.TrimRight(line, " \t"))
		if continues {
			line += " "
		}
		if goesOn {
			last := &all[len(all)-1]
			last.text, last.end = last.text+line, end
		} else {
			all = append(all, unitLine{line, end})
		}
		goesOn = continues
	}
	for i := range all {
		all[i].text = strings.TrimSpace(all[i].text)
	}
	return all
}

// words splits a line as systemd does: at spaces that are not quoted. take reads what comes after a
// backslash, and returns it with the rest.
func words(line string, take func(string) (text, rest string)) (all []string) {
	var word strings.Builder
	quote, inWord := byte(0), false
	for line != "" {
		first := line[0]
		rest := line[1:]
		switch {
		case first == '\\' && rest != "":
			text, after := take(rest)
			word.WriteString(text)
			rest, inWord = after, true
		case quote == 0 && (first == '"' || first == '\''):
			quote, inWord = first, true
		case quote != 0 && first == quote:
			quote = 0
		case quote == 0 && strings.IndexByte(" \t\r\n", first) >= 0:
			if inWord {
				all = append(all, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(first)
			inWord = true
		}
		line = rest
	}
	if inWord {
		all = append(all, word.String())
	}
	return all
}

// unescaped takes the character that a backslash protects.
func unescaped(s string) (text, rest string) {
	_, size := utf8.DecodeRuneInString(s)
	return s[:size], s[size:]
}

// letters are the escapes of one letter.
var letters = map[byte]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", 's': " ",
	'\\': `\`, '"': `"`, '\'': "'"}

// numbers are the escapes of a number: how many digits, of which base.
var numbers = map[byte][2]int{'x': {2, 16}, 'u': {4, 16}, 'U': {8, 16}}

// escaped takes a character by its escape, as in C. What is none stays as it is.
func escaped(s string) (text, rest string) {
	if text, ok := letters[s[0]]; ok {
		return text, s[1:]
	}
	kind, digits := numbers[s[0]], s[1:]
	if kind[0] == 0 {
		kind, digits = [2]int{3, 8}, s
	}
	if len(digits) >= kind[0] {
		n, err := strconv.ParseUint(digits[:kind[0]], kind[1], 32)
		if err == nil && slices.Contains([]byte("uU"), s[0]) {
			return string(rune(n)), digits[kind[0]:]
		}
		if err == nil && n <= 0xff {
			return string([]byte{byte(n)}), digits[kind[0]:]
		}
	}
	return `\`, s
}
