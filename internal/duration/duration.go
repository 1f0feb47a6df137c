// Package duration has durations that are written in the usual form, such as 30s or 720h.
package duration

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that is text in YAML and JSON, and never negative there.
type Duration time.Duration

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as 30s or 720h", text)
	}
	if v < 0 {
		return fmt.Errorf("the duration %s is negative", v)
	}
	*d = Duration(v)
	return nil
}
