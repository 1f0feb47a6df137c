package store

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// collides reports whether the end after n deeds is one that SQLite cannot see: the header of a frame of the log is written and its
// page is not, an older page stands there, and both pages have the same checksum. The log's checksum is a sum, and a
// page of free pages from which one was taken may differ by -1, +1 and +1 in words that follow each other.
// Nobody but SQLite can mend this; a kill has to come between two writes, at one of such a pair.
func (d *disk) collides(n int) bool {
	if n == 0 || n == len(d.done) {
		return false
	}
	header, page := d.done[n-1], d.done[n]
	if !strings.HasSuffix(header.path, "-wal") || len(header.data) != 24 || page.offset != header.offset+24 {
		return false
	}
	for i := n - 1; i >= 0; i-- {
		if w := d.done[i]; w.number == page.number && w.what == "write" && w.offset == page.offset {
			return !bytes.Equal(w.data, page.data) && walChecksum(w.data) == walChecksum(page.data)
		}
	}
	return false
}

// walChecksum is that of SQLite's log for data alone (https://sqlite.org/fileformat2.html#checksum_algorithm).
func walChecksum(data []byte) (sum [2]uint32) {
	for ; len(data) >= 8; data = data[8:] {
		sum[0] += binary.NativeEndian.Uint32(data) + sum[1]
		sum[1] += binary.NativeEndian.Uint32(data[4:]) + sum[0]
	}
	return sum
}

func TestPagesOfOneChecksum(t *testing.T) {
	page := func(words ...uint32) (data []byte) {
		for _, w := range words {
			data = binary.NativeEndian.AppendUint32(data, w)
		}
		return data
	}
	before := page(0, 5, 9, 7)
	for _, tc := range []struct {
		after    []byte
		collides bool
	}{{page(0, 4, 10, 8), true}, {page(0, 4, 10, 7), false}, {before, false}} {
		d := &disk{done: []deed{
			{what: "write", path: "store.db-wal", number: 2, offset: 56, data: before},
			{what: "write", path: "store.db-wal", number: 2, offset: 32, data: make([]byte, 24)},
			{what: "write", path: "store.db-wal", number: 2, offset: 56, data: tc.after},
		}}
		if got := d.collides(2); got != tc.collides || d.collides(1) || d.collides(3) {
			t.Errorf("%x: it collides: %t", tc.after, got)
		}
	}
}
