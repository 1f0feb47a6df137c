package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Seen says which hosts have reported to a server in a stretch of time, by their numbers in the roll.
//
// Its form is a byte 1; four numbers of 32 bits, the highest byte first: both ends of the stretch and the time since
// which the server knows all reports, in seconds, and the number of hosts; a byte k; the gaps between the hosts' numbers
// in Rice code with k low bits, filled up to a whole byte; then the hosts with an unusual sequence, each as two numbers of
// 32 bits. With each tenth host of a million that is 60 KB.
type Seen struct {
	From, To time.Time
	Covered  time.Time
	Numbers  []uint32 // in ascending order, each once
	// Unusual has the sequence of the last report of some hosts. The sequence of any other host is at most SequenceAt(To):
	// updaters derive it from the time.
	Unusual map[uint32]uint32
}

const (
	seenForm   = 1
	seenHeader = 1 + 4*4 + 1
	// maxUnusual keeps a Seen below a store's limit: a list of two million hosts has 300 KB.
	maxUnusual = 60_000
	// sequenceEpoch is the beginning of 2020: updaters count the seconds since.
	sequenceEpoch = 1577836800
	// usualDelay is how much older than the stretch the sequence of a report that arrives in it usually is, at most.
	usualDelay = 2 * time.Minute
)

// SequenceAt returns the sequence that an updater with the right time gives to a report at that time.
func SequenceAt(t time.Time) uint32 { return uint32(max(t.Unix()-sequenceEpoch, 0)) }

// Add adds the report of a host. The numbers may come in any order.
func (s *Seen) Add(number, sequence uint32) {
	s.Numbers = append(s.Numbers, number)
	if sequence >= SequenceAt(s.From.Add(-usualDelay)) && sequence <= SequenceAt(s.To) {
		return
	}
	if s.Unusual == nil {
		s.Unusual = make(map[uint32]uint32)
	}
	s.Unusual[number] = sequence
}

// Full reports whether a store would not take a larger one.
func (s *Seen) Full() bool { return len(s.Unusual) >= maxUnusual }

// Sequence returns the lower bound for the sequence of a host's next report.
func (s *Seen) Sequence(number uint32) uint32 {
	if unusual, is := s.Unusual[number]; is {
		return unusual
	}
	return SequenceAt(s.To)
}

// Bytes returns the stored form.
func (s *Seen) Bytes() []byte {
	slices.Sort(s.Numbers)
	s.Numbers = slices.Compact(s.Numbers)
	b := []byte{seenForm}
	for _, v := range []uint32{seconds(s.From), seconds(s.To), seconds(s.Covered), uint32(len(s.Numbers))} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	k := uint8(0)
	if n := len(s.Numbers); n > 0 {
		// The low bits are about the middle of the gaps: 0.7 of their mean.
		k = uint8(max(bits.Len(uint((int(s.Numbers[n-1])+1)*7/10/n))-1, 0))
	}
	w := bitWriter{bytes: append(b, k)}
	next := uint32(0)
	for _, number := range s.Numbers {
		gap := number - next
		for range gap >> k {
			w.bit(1)
		}
		w.bit(0)
		for i := range k {
			w.bit(gap >> (k - 1 - i) & 1)
		}
		next = number + 1
	}
	b = w.bytes
	unusual := make([]uint32, 0, len(s.Unusual))
	for number := range s.Unusual {
		unusual = append(unusual, number)
	}
	slices.Sort(unusual)
	for _, number := range unusual {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, number), s.Unusual[number])
	}
	return b
}

// ParseSeen reads the form that Bytes has written. A form of a later version is an error.
func ParseSeen(b []byte) (s Seen, err error) {
	if len(b) < seenHeader || b[0] != seenForm || b[seenHeader-1] > 31 {
		return s, errors.New("it is no list of the hosts that reported, or of a later version")
	}
	field := func(i int) uint32 { return binary.BigEndian.Uint32(b[1+4*i:]) }
	s.From, s.To, s.Covered = moment(field(0)), moment(field(1)), moment(field(2))
	count, k := field(3), b[seenHeader-1]
	r := bitReader{bytes: b[seenHeader:]}
	if uint64(count) > uint64(len(r.bytes))*8 {
		return s, fmt.Errorf("%d bytes are too few for %d hosts", len(b), count)
	}
	s.Numbers = make([]uint32, 0, count)
	next := uint64(0)
	for range count {
		gap := uint64(0)
		for r.bit() == 1 {
			gap++
		}
		for range k {
			gap = gap<<1 | uint64(r.bit())
		}
		number := next + gap
		if r.short || number > 1<<32-1 {
			return s, errors.New("the list of the hosts that reported ends in the middle")
		}
		s.Numbers = append(s.Numbers, uint32(number))
		next = number + 1
	}
	unusual := r.bytes[(r.at+7)/8:]
	s.Unusual = make(map[uint32]uint32, len(unusual)/8)
	for ; len(unusual) >= 8; unusual = unusual[8:] {
		s.Unusual[binary.BigEndian.Uint32(unusual)] = binary.BigEndian.Uint32(unusual[4:])
	}
	return s, nil
}

type bitWriter struct {
	bytes []byte
	used  int // bits of the last byte; 0 if it is full
}

func (w *bitWriter) bit(b uint32) {
	if w.used == 0 {
		w.bytes = append(w.bytes, 0)
	}
	w.bytes[len(w.bytes)-1] |= byte(b) << (7 - w.used)
	w.used = (w.used + 1) % 8
}

type bitReader struct {
	bytes []byte
	at    int
	short bool // there were too few
}

func (r *bitReader) bit() byte {
	if r.at >= len(r.bytes)*8 {
		r.short = true
		return 0
	}
	b := r.bytes[r.at/8] >> (7 - r.at%8) & 1
	r.at++
	return b
}
