package systemd

import "strings"

// readEnvironment adds what an environment file says to variables, as systemd reads it
// (systemd.exec(5), "EnvironmentFile="): not as a shell does.
func readEnvironment(content string, into map[string]string) {
	for content != "" {
		content = strings.TrimLeft(content, " \t\r\n")
		if strings.HasPrefix(content, "#") || strings.HasPrefix(content, ";") {
			content = afterComment(content)
			continue
		}
		line, _, _ := strings.Cut(content, "\n")
		name, _, ok := strings.Cut(line, "=")
		if !ok {
			content = strings.TrimPrefix(content[len(line):], "\n")
			continue
		}
		into[strings.TrimSpace(name)], content = environmentValue(content[len(name)+1:])
	}
}

// afterComment is what follows a comment. A backslash before the end of its line has it go on.
func afterComment(content string) string {
	for content != "" {
		line, rest, _ := strings.Cut(content, "\n")
		content = rest
		if !strings.HasSuffix(line, `\`) {
			break
		}
	}
	return content
}

// environmentValue reads a value to the end of its line, and returns what follows.
func environmentValue(content string) (value, rest string) {
	var b strings.Builder
	quote, inValue := byte(0), false
	keep := 0 // as much as is no space at the end
	for i := 0; i < len(content); i++ {
		c := content[i]
		next := byte('\n')
		if i+1 < len(content) {
			next = content[i+1]
		}
		switch {
		case quote == 0 && (c == '\n' || c == '\r'):
			return b.String()[:keep], content[i+1:]
		case quote == 0 && !inValue && (c == '"' || c == '\''):
			quote = c
			continue
		case quote != 0 && c == quote:
			quote = 0
			continue
		case c == '\\' && quote != '\'':
			i++
			inValue = inValue || quote == 0
			b.WriteString(escapedValue(next, quote == '"'))
			keep = b.Len()
			continue
		}
		space := quote == 0 && strings.IndexByte(" \t", c) >= 0
		if space && !inValue {
			continue
		}
		inValue = inValue || quote == 0
		b.WriteByte(c)
		if !space {
			keep = b.Len()
		}
	}
	return b.String()[:keep], ""
}

// escapedValue is what a backslash and the character after it stand for. A backslash at the end of a line joins it with the
// next one; between double quotes, one before most characters is kept.
func escapedValue(next byte, quoted bool) string {
	switch {
	case next == '\n':
		return ""
	case quoted && strings.IndexByte("\"\\`$", next) < 0:
		return "\\" + string([]byte{next})
	}
	return string([]byte{next})
}
