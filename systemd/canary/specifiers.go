package canary

import (
	"path"
	"strconv"
	"strings"
)

// specifiers are the values of the specifiers that stand for a unit's name or file (systemd.unit(5), "Specifiers"). The others have
// the same value in each unit, and stay as they are.
type specifiers map[byte]string

func specifiersOf(s Service) specifiers {
	whole := strings.TrimSuffix(s.Name, path.Ext(s.Name))
	prefix, instance, isInstance := strings.Cut(whole, "@")
	last := prefix[strings.LastIndex(prefix, "-")+1:]
	file := prefix
	if isInstance {
		file = instance
	}
	return specifiers{
		'n': s.Name, 'N': whole, 'p': prefix, 'P': unescape(prefix), 'i': instance, 'I': unescape(instance), 'j': last, 'J': unescape(last),
		'f': "/" + strings.TrimPrefix(unescape(file), "/"), 'y': s.Unit.Path, 'Y': path.Dir(s.Unit.Path),
	}
}

func (all specifiers) expand(value string) string {
	var b strings.Builder
	for value != "" {
		before, after, found := strings.Cut(value, "%")
		b.WriteString(before)
		if !found {
			break
		}
		if after == "" {
			b.WriteByte('%')
			break
		}
		if text, is := all[after[0]]; is {
			b.WriteString(strings.ReplaceAll(text, "%", "%%"))
		} else {
			b.WriteString("%" + after[:1])
		}
		value = after[1:]
	}
	return b.String()
}

// unescape is systemd-escape(1) --unescape.
func unescape(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] == '-':
			b.WriteByte('/')
			continue
		case strings.HasPrefix(name[i:], `\x`) && len(name) >= i+4:
			if n, err := strconv.ParseUint(name[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
