// Package stamp turns one built stand-in agent into any number of releases.
//
// A release's binary is the built agent followed by a stamp: a JSON object that
// says which version this is and how it behaves, its length, and a magic word.
// The program reads its own stamp when it starts, so a new release costs a copy
// of a file instead of a build. Bytes between the program and the stamp are
// padding; neither the kernel nor debug/buildinfo looks at them.
package stamp

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"teleport-update/internal/version"
)

// Stamp is what tells one release of the stand-in agent from another.
type Stamp struct {
	Version string          `json:"version"`
	Edition version.Edition `json:"edition"`
	Variant Variant         `json:"variant"`
	// Schema is the version of the database schema: a release migrates an
	// older one up to it and refuses a newer one.
	Schema int `json:"schema"`
	// CrashAfter is how long CrashLoops lives after it was ready.
	CrashAfter time.Duration `json:"crash_after"`
	// DrainFor is how long Drains stays after it has handed over.
	DrainFor time.Duration `json:"drain_for"`
}

// ErrNone says that a file carries no stamp.
var ErrNone = errors.New("the file carries no stamp: it is a plain build of the stand-in agent or another program")

const (
	magic     = "stand-in agent\x00\x01"
	maxLength = 4096
)

// Append writes the stamp to w, which holds the program and its padding.
func Append(w io.Writer, s Stamp) error {
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode stamp: %w", err)
	}
	body = binary.LittleEndian.AppendUint64(body, uint64(len(body)))
	_, err = w.Write(append(body, magic...))
	return err
}

// Self reads the stamp of the running program, which may have been deleted or
// renamed since it was started.
func Self() (Stamp, error) {
	return Read("/proc/self/exe")
}

// Read reads the stamp of the program at path, or returns ErrNone.
func Read(path string) (Stamp, error) {
	f, err := os.Open(path)
	if err != nil {
		return Stamp{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	tail := int64(8 + len(magic))
	end := make([]byte, tail)
	if info.Size() < tail {
		return Stamp{}, ErrNone
	}
	if _, err := f.ReadAt(end, info.Size()-tail); err != nil {
		return Stamp{}, err
	}
	length := binary.LittleEndian.Uint64(end)
	if string(end[8:]) != magic || length > maxLength || int64(length) > info.Size()-tail {
		return Stamp{}, ErrNone
	}
	body := make([]byte, length)
	if _, err := f.ReadAt(body, info.Size()-tail-int64(length)); err != nil {
		return Stamp{}, err
	}
	var s Stamp
	if err := json.Unmarshal(body, &s); err != nil {
		return Stamp{}, fmt.Errorf("decode stamp of %s: %w", path, err)
	}
	return s, nil
}
