package systemd

import (
	"fmt"
	"strings"
)

// escapePath is systemd-escape(1) --path. That of go-systemd writes a line feed with one
// digit.
func escapePath(dir string) string {
	var b strings.Builder
	for i, c := range []byte(strings.Trim(dir, "/")) {
		switch {
		case c == '/':
			b.WriteByte('-')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ':', c == '_':
			b.WriteByte(c)
		case c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// MountUnit names the unit that mounts something at a path, which has no links in it.
func MountUnit(path string) string { return escapePath(path) + ".mount" }
