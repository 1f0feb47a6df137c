package rollout

import (
	"crypto/sha256"
	"encoding/hex"
)

// HostID is a host's identity in 16 bytes: its UUID or, for a name that is not a UUID,
// such as an EC2 host's, a digest of the name.
type HostID [16]byte

// ParseHostID takes any name of a host.
func ParseHostID(s string) HostID {
	var id HostID
	if parseUUID(&id, s) {
		return id
	}
	sum := sha256.Sum256([]byte(s))
	copy(id[:], sum[:])
	return id
}

func (id HostID) String() string { return string(id.append(nil)) }

func (id HostID) append(to []byte) []byte {
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return append(to, text[:]...)
}

// ParseUUID takes a UUID in the usual form, and no other name.
func ParseUUID(s string) (id HostID, ok bool) {
	ok = parseUUID(&id, s) && id != HostID{}
	return id, ok
}

// parseUUID takes the usual form, in letters of any case. It runs at every question
// of a host.
func parseUUID(id *HostID, s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	at := 0
	for i := range id {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		high, low := hexDigit[s[at]], hexDigit[s[at+1]]
		if high < 0 || low < 0 {
			return false
		}
		id[i] = byte(high)<<4 | byte(low)
		at += 2
	}
	return true
}

// hexDigit is -1 for a byte that is not a hexadecimal digit.
var hexDigit = func() (table [256]int8) {
	for i := range table {
		table[i] = -1
	}
	for i := range 10 {
		table['0'+i] = int8(i)
	}
	for i := range 6 {
		table['a'+i], table['A'+i] = int8(10+i), int8(10+i)
	}
	return table
}()
