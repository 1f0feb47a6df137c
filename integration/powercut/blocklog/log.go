package blocklog

import (
	"fmt"
	"io"
)

// Event is one thing that happened to a disk: a write, or a flush of its cache.
type Event struct {
	Flush  bool
	Offset int64
	Data   []byte
}

func (e Event) String() string {
	if e.Flush {
		return "flush"
	}
	return fmt.Sprintf("write of %d bytes at %d", len(e.Data), e.Offset)
}

// Log is what happened to a disk, in order. A position in it is the number of
// events before.
type Log []Event

// sector is the piece of a write that a drive keeps or loses as one. Drives
// promise 512 bytes; most write 4096.
const sector = 4096

// Safe returns the position that is on the disk for certain when the power is
// cut at position n: the last flush before it.
func (l Log) Safe(n int) int {
	for n > 0 && !l[n-1].Flush {
		n--
	}
	return n
}

// Pieces is how many pieces, each kept or lost by itself, were written between
// two positions.
func (l Log) Pieces(from, to int) int {
	n := 0
	for _, e := range l[from:to] {
		n += (len(e.Data) + sector - 1) / sector
	}
	return n
}

// Apply writes what happened between two positions to an image that has all
// before it.
func (l Log) Apply(image io.WriterAt, from, to int) error {
	return l.ApplySome(image, from, to, func() bool { return true })
}

// ApplySome is Apply with a part lost: keep is asked for each piece.
func (l Log) ApplySome(image io.WriterAt, from, to int, keep func() bool) error {
	for _, e := range l[from:to] {
		for at := 0; at < len(e.Data); at += sector {
			if !keep() {
				continue
			}
			if _, err := image.WriteAt(e.Data[at:min(at+sector, len(e.Data))], e.Offset+int64(at)); err != nil {
				return err
			}
		}
	}
	return nil
}
