package systemd

import (
	"errors"
	"time"
)

// lookLimit is for how long a file system is waited for: one whose server is away answers nobody, and who tells of a host must
// come to an end.
const lookLimit = 3 * time.Second

var errNoAnswer = errors.New("its file system does not answer")

// within looks at a file. The error is errNoAnswer if that takes longer than lookLimit; the look then goes on by itself, as nobody
// can call it back.
func within[T any](look func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := look()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-time.After(lookLimit):
		var none T
		return none, errNoAnswer
	}
}
