package repository

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
)

// signed returns the package with two signatures in place of those that it has:
// one over the header, which rpm of today looks at and which holds the payload's
// digest, and one over header and payload, for rpm before 4.14, which knows of no
// such digest.
func (p *rpm) signed(key Signer) ([]byte, error) {
	overHeader, err := key.Detached(p.data[p.start:p.end], 0)
	if err != nil {
		return nil, err
	}
	overAll, err := key.Detached(p.content(), 0)
	if err != nil {
		return nil, err
	}
	tagHeader, tagAll := uint32(sigDSA), uint32(sigGPG)
	rsa, err := isRSA(overHeader)
	if err != nil {
		return nil, err
	}
	if rsa {
		tagHeader, tagAll = sigRSA, sigPGP
	}
	values := map[uint32]rpmValue{tagHeader: {typeBytes, uint32(len(overHeader)), overHeader}, tagAll: {typeBytes, uint32(len(overAll)), overAll}}
	for _, e := range p.signature.entries {
		switch e.Tag {
		case sigRegion, sigDSA, sigRSA, sigPGP, sigGPG, sigReserved:
		default:
			_, data := p.signature.find(e.Tag)
			values[e.Tag] = rpmValue{e.Type, e.Count, data}
		}
	}
	out := bytes.NewBuffer(slices.Clone(p.data[:leadSize]))
	out.Write(signatureHeader(values))
	out.Write(make([]byte, (8-out.Len()%8)%8))
	out.Write(p.content())
	return out.Bytes(), nil
}

type rpmValue struct {
	kind, count uint32
	data        []byte
}

// signatureHeader writes the values in the order of their tags, after the entry
// for the region, which points to a copy of itself at the end of the store.
func signatureHeader(values map[uint32]rpmValue) []byte {
	tags := slices.Sorted(maps.Keys(values))
	entries := make([]rpmEntry, 1, len(tags)+1)
	var store []byte
	for _, tag := range tags {
		v := values[tag]
		for align := widths[v.kind]; align > 0 && len(store)%align > 0; {
			store = append(store, 0)
		}
		entries = append(entries, rpmEntry{tag, v.kind, uint32(len(store)), v.count})
		store = append(store, v.data...)
	}
	entries[0] = rpmEntry{sigRegion, typeBytes, uint32(len(store)), entrySize}
	trailer := rpmEntry{sigRegion, typeBytes, -uint32(len(entries) * entrySize), entrySize}
	store, _ = binary.Append(store, binary.BigEndian, trailer) // fixed sizes: no error

	out := append(slices.Clone(headerMagic), 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(len(entries)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(store)))
	out, _ = binary.Append(out, binary.BigEndian, entries)
	return append(out, store...)
}
