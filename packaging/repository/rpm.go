package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// An rpm is a lead of 96 bytes, which nobody reads, a signature header that is
// padded to eight bytes, a header that says all about the package, and the payload.
// Both headers have one form: a magic number, the number of entries and the size of
// their store, the entries, the store.
//
// The libraries that there are sign only what they build themselves, or bring cgo
// and an unpacker along.

const (
	leadSize  = 96
	introSize = 16
	entrySize = 16

	// What is larger than the largest package of this project is none.
	maxEntries = 1 << 16
	maxStore   = 64 << 20
)

var (
	leadMagic   = []byte{0xed, 0xab, 0xee, 0xdb}
	headerMagic = []byte{0x8e, 0xad, 0xe8, 0x01}
)

// Types of entries.
const (
	typeInt8   = 2
	typeInt16  = 3
	typeInt32  = 4
	typeInt64  = 5
	typeString = 6
	typeBytes  = 7
	typeArray  = 8
	typeI18N   = 9
)

// widths are the sizes of integers in bytes, by their types.
var widths = map[uint32]int{typeInt8: 1, typeInt16: 2, typeInt32: 4, typeInt64: 8}

// Tags of the signature header.
const (
	sigRegion      = 62
	sigDSA         = 267 // over the header, of any key that is not RSA
	sigRSA         = 268 // over the header
	sigSHA256      = 273 // of the header
	sigPGP         = 1002
	sigGPG         = 1005
	sigPayloadSize = 1007
	sigReserved    = 1008
)

// rpm is a package whose header and payload match their digests.
type rpm struct {
	data      []byte
	signature *rpmHeader
	header    *rpmHeader
	// Where the header begins and where it ends.
	start, end int
}

func parseRPM(data []byte) (*rpm, error) {
	if len(data) < leadSize || !bytes.HasPrefix(data, leadMagic) {
		return nil, errors.New("it is not an rpm")
	}
	signature, size, err := parseHeader(data[leadSize:])
	if err != nil {
		return nil, fmt.Errorf("signature header: %w", err)
	}
	p := &rpm{data: data, signature: signature, start: leadSize + (size+7)/8*8}
	if p.start > len(data) {
		return nil, errTruncated
	}
	if p.header, size, err = parseHeader(data[p.start:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	p.end = p.start + size
	return p, p.checkDigests()
}

// checkDigests wants the digests that the project's packages have, and rpm before
// 4.14 does without.
func (p *rpm) checkDigests() error {
	sum := sha256.Sum256(p.data[p.start:p.end])
	if p.signature.text(sigSHA256) != hex.EncodeToString(sum[:]) {
		return errors.New("the header does not match its sha256: the package is damaged, or it has none")
	}
	const ofSHA256 = 8
	if algo := p.header.numbers(tagPayloadDigestAlgo); len(algo) != 1 || algo[0] != ofSHA256 {
		return errors.New("the payload has no sha256")
	}
	sum = sha256.Sum256(p.data[p.end:])
	if p.header.text(tagPayloadDigest) != hex.EncodeToString(sum[:]) {
		return errors.New("the payload does not match its sha256: the package is damaged")
	}
	return nil
}

// content is what is signed: everything but the signatures and what comes before.
func (p *rpm) content() []byte { return p.data[p.start:] }

// rpmHeader is either of the two.
type rpmHeader struct {
	entries []rpmEntry
	store   []byte
}

type rpmEntry struct{ Tag, Type, Offset, Count uint32 }

var errTruncated = errors.New("it is truncated")

// parseHeader also returns how many bytes the header has.
func parseHeader(data []byte) (h *rpmHeader, size int, err error) {
	if len(data) < introSize || !bytes.HasPrefix(data, headerMagic) {
		return nil, 0, errors.New("there is none")
	}
	entries, store := binary.BigEndian.Uint32(data[8:]), binary.BigEndian.Uint32(data[12:])
	if entries > maxEntries || store > maxStore {
		return nil, 0, errors.New("it is larger than in any real package")
	}
	begin := introSize + int(entries)*entrySize
	size = begin + int(store)
	if size > len(data) {
		return nil, 0, errTruncated
	}
	h = &rpmHeader{entries: make([]rpmEntry, entries), store: data[begin:size]}
	if _, err := binary.Decode(data[introSize:begin], binary.BigEndian, h.entries); err != nil {
		return nil, 0, err
	}
	for _, e := range h.entries {
		if _, err := h.extent(e); err != nil {
			return nil, 0, fmt.Errorf("tag %d: %w", e.Tag, err)
		}
	}
	return h, size, nil
}

// extent is the part of the store that belongs to an entry.
func (h *rpmHeader) extent(e rpmEntry) ([]byte, error) {
	if int64(e.Offset) > int64(len(h.store)) || e.Count > maxStore {
		return nil, errTruncated
	}
	rest := h.store[e.Offset:]
	size := 0
	switch e.Type {
	case typeBytes:
		size = int(e.Count)
	case typeInt8, typeInt16, typeInt32, typeInt64:
		size = int(e.Count) * widths[e.Type]
	case typeString, typeArray, typeI18N:
		for range e.Count {
			n := bytes.IndexByte(rest[size:], 0)
			if n < 0 {
				return nil, errTruncated
			}
			size += n + 1
		}
	default:
		return nil, fmt.Errorf("type %d is not known", e.Type)
	}
	if size > len(rest) {
		return nil, errTruncated
	}
	return rest[:size], nil
}

func (h *rpmHeader) find(tag uint32) (rpmEntry, []byte) {
	for _, e := range h.entries {
		if e.Tag == tag {
			data, _ := h.extent(e) // parseHeader has looked
			return e, data
		}
	}
	return rpmEntry{}, nil
}

// texts returns the strings of a tag, nil where it is not there.
func (h *rpmHeader) texts(tag uint32) (all []string) {
	e, data := h.find(tag)
	if e.Type != typeString && e.Type != typeArray && e.Type != typeI18N {
		return nil
	}
	for range e.Count {
		s, rest, _ := bytes.Cut(data, []byte{0})
		all, data = append(all, string(s)), rest
	}
	return all
}

// text returns the first string of a tag.
func (h *rpmHeader) text(tag uint32) string {
	if all := h.texts(tag); len(all) > 0 {
		return all[0]
	}
	return ""
}

// numbers returns the integers of a tag, nil where it is not there.
func (h *rpmHeader) numbers(tag uint32) (all []uint64) {
	e, data := h.find(tag)
	width, ok := widths[e.Type]
	if !ok {
		return nil
	}
	for digits := range slices.Chunk(data, width) {
		var n uint64
		for _, digit := range digits {
			n = n<<8 | uint64(digit)
		}
		all = append(all, n)
	}
	return all
}

// number returns the first integer of a tag, 0 where it is not there.
func (h *rpmHeader) number(tag uint32) uint64 {
	if all := h.numbers(tag); len(all) > 0 {
		return all[0]
	}
	return 0
}
