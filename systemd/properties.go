package systemd

import (
	"math"
	"time"

	"github.com/godbus/dbus/v5"
)

// properties are those of a unit, as systemd answers with them.
type properties map[string]dbus.Variant

func property[T any](p properties, name string) T {
	value, _ := p[name].Value().(T)
	return value
}

// denied reports whether a property is there and says no. Old versions of systemd lack some.
func denied(p properties, name string) bool {
	yes, there := p[name].Value().(bool)
	return there && !yes
}

// text is a field of a structure; empty if there is none.
func text(fields []any, i int) string {
	if i >= len(fields) {
		return ""
	}
	s, _ := fields[i].(string)
	return s
}

// Forever is the length of a limit that the unit sets to "infinity".
const Forever time.Duration = math.MaxInt64

// limit converts microseconds, of which all ones mean infinity.
func limit(usec uint64) time.Duration {
	if usec > math.MaxInt64/1000 {
		return Forever
	}
	return time.Duration(usec) * time.Microsecond
}
