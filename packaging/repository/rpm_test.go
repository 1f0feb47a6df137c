package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// aHeader is one with a string, a list and a number.
func aHeader(digestOfPayload string) []byte {
	return signatureHeader(map[uint32]rpmValue{
		tagName:              {typeString, 1, []byte("teleport-update\x00")},
		tagBaseNames:         {typeArray, 2, []byte("a\x00b\x00")},
		tagSize:              {typeInt32, 1, []byte{0, 0, 1, 0}},
		tagPayloadDigest:     {typeArray, 1, []byte(digestOfPayload + "\x00")},
		tagPayloadDigestAlgo: {typeInt32, 1, []byte{0, 0, 0, 8}},
	})
}

func anRPM() []byte {
	payload := []byte("payload")
	sum := sha256.Sum256(payload)
	header := aHeader(hex.EncodeToString(sum[:]))
	sum = sha256.Sum256(header)
	signature := signatureHeader(map[uint32]rpmValue{
		sigSHA256:      {typeString, 1, []byte(hex.EncodeToString(sum[:]) + "\x00")},
		sigPayloadSize: {typeInt32, 1, []byte{0, 0, 0, 7}},
		sigReserved:    {typeBytes, 3, []byte{1, 2, 3}},
	})
	lead := append(slices.Clone(leadMagic), make([]byte, leadSize-len(leadMagic))...)
	return slices.Concat(lead, signature, make([]byte, (8-len(signature)%8)%8), header, payload)
}

func TestARPMIsReadAndSigned(t *testing.T) {
	p, err := parseRPM(anRPM())
	if err != nil {
		t.Fatal(err)
	}
	if p.header.text(tagName) != "teleport-update" || !slices.Equal(p.header.texts(tagBaseNames), []string{"a", "b"}) || p.header.number(tagSize) != 256 {
		t.Errorf("its header is %+v", p.header)
	}
	if p.header.text(tagSize) != "" || p.header.numbers(tagName) != nil || p.header.texts(9999) != nil {
		t.Error("a tag of another type, or none, has a value")
	}
	path := t.TempDir() + "/key"
	if _, err := NewKey(path, "test", nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	key, err := OpenKey(path, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	data, err := p.signed(key)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := parseRPM(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(signed.content(), p.content()) || signed.signature.number(sigPayloadSize) != 7 {
		t.Error("what is signed, or what was in the signature header, is another")
	}
	if _, reserved := signed.signature.find(sigReserved); reserved != nil {
		t.Error("the space that was for a signature is still there")
	}
	for tag, message := range map[uint32][]byte{sigRSA: signed.data[signed.start:signed.end], sigPGP: signed.content()} {
		_, signature := signed.signature.find(tag)
		if err := verify(openpgp.EntityList{key.Public()}, message, signature, time.Now()); err != nil {
			t.Errorf("signature %d: %v", tag, err)
		}
	}
	// Signed again, by another key, it has these signatures alone.
	again, err := signed.signed(key)
	if err != nil || len(again) != len(data) {
		t.Errorf("signed again it has %d bytes, once %d; %v", len(again), len(data), err)
	}
}

func FuzzParseRPM(f *testing.F) {
	f.Add(anRPM())
	f.Add(aHeader("0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := parseRPM(data); err == nil {
			describe(p)
		}
		// Past the digests, which no fuzzer finds.
		if h, size, err := parseHeader(data); err == nil {
			if size > len(data) {
				t.Errorf("a header of %d bytes in %d", size, len(data))
			}
			describe(&rpm{header: h, signature: h})
		}
	})
}

func FuzzReadControl(f *testing.F) {
	f.Add([]byte("!<arch>\ndebian-binary   0           0     0     100644  4         `\n2.0\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { readControl(data) })
}
