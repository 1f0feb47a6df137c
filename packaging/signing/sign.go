// Package signing signs packages and repositories with an OpenPGP key, from a file or
// gpg's agent, and checks which keys hosts accept. A key in a file needs no other
// program, and its signatures are a function of the content, the key and the time.
package signing

import (
	"bytes"
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Signer signs with one key.
type Signer interface {
	// Detached returns a binary signature over a message. It expires after the
	// lifetime; 0 means never.
	Detached(message []byte, lifetime time.Duration) ([]byte, error)
	// Clearsigned returns the text with a signature below it.
	Clearsigned(text []byte) ([]byte, error)
	// Public is the key without its secret part.
	Public() *openpgp.Entity
}

// fileSigner has the secret key in memory. It needs no other program.
type fileSigner struct {
	entity *openpgp.Entity
	key    openpgp.Key
	now    func() time.Time
}

// pgpConfig makes signatures that are a function of the content, the key and the time,
// and that yum of RHEL 7 and rpm 4.14 understand: for these, some parts must not be
// critical.
func pgpConfig(now func() time.Time, lifetime time.Duration) *packet.Config {
	unsalted := false
	return &packet.Config{
		DefaultHash: crypto.SHA256, Time: now, SigLifetimeSecs: uint32(lifetime / time.Second),
		NonDeterministicSignaturesViaNotation:            &unsalted,
		InsecureGenerateNonCriticalKeyFlags:              true,
		InsecureGenerateNonCriticalSignatureCreationTime: true,
	}
}

func (s *fileSigner) Public() *openpgp.Entity { return s.entity }

func (s *fileSigner) Detached(message []byte, lifetime time.Duration) ([]byte, error) {
	var b bytes.Buffer
	err := openpgp.DetachSign(&b, s.entity, bytes.NewReader(message), pgpConfig(s.now, lifetime))
	return b.Bytes(), err
}

func (s *fileSigner) Clearsigned(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, s.key.PrivateKey, pgpConfig(s.now, 0))
	if err != nil {
		return nil, err
	}
	// The last line break belongs to the armor.
	_, err = w.Write(bytes.TrimSuffix(text, []byte("\n")))
	if err = cmp.Or(err, w.Close()); err != nil {
		return nil, err
	}
	// The library writes this armor without a checksum. gpgv before 2.4 does not find
	// its end if the base64 needs no padding.
	const begin = "-----BEGIN PGP SIGNATURE-----"
	signed, rest, _ := bytes.Cut(b.Bytes(), []byte(begin))
	signature, err := Unarmored(append([]byte(begin), rest...))
	if err != nil {
		return nil, err
	}
	return slices.Concat(signed, Armored(openpgp.SignatureType, signature)), nil
}

// Verify checks a detached signature. It accepts an expired signature or key: these
// still prove who signed.
func Verify(keys openpgp.EntityList, message, signature []byte, now time.Time) error {
	config := pgpConfig(func() time.Time { return now }, 0)
	_, err := openpgp.CheckDetachedSignature(keys, bytes.NewReader(message), bytes.NewReader(signature), config)
	return ignoreExpiry(err)
}

// VerifyClearsigned returns the signed text. It accepts an expired signature or key,
// like Verify.
func VerifyClearsigned(keys openpgp.EntityList, data []byte, now time.Time) ([]byte, error) {
	block, rest := clearsign.Decode(data)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it is not a clear-signed text")
	}
	_, err := block.VerifySignature(keys, pgpConfig(func() time.Time { return now }, 0))
	return block.Plaintext, ignoreExpiry(err)
}

func ignoreExpiry(err error) error {
	if errors.Is(err, pgperrors.ErrSignatureExpired) || errors.Is(err, pgperrors.ErrKeyExpired) {
		return nil
	}
	return err
}

// Checked returns a signer that verifies each signature before it returns it: an agent
// may have another key of that name, and memory may have an error.
func Checked(s Signer, now time.Time) Signer { return checked{s, now} }

type checked struct {
	Signer
	now time.Time
}

func (c checked) Detached(message []byte, lifetime time.Duration) ([]byte, error) {
	signature, err := c.Signer.Detached(message, lifetime)
	if err == nil {
		err = Verify(openpgp.EntityList{c.Public()}, message, signature, c.now)
	}
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return signature, nil
}

func (c checked) Clearsigned(text []byte) ([]byte, error) {
	signed, err := c.Signer.Clearsigned(text)
	if err == nil {
		_, err = VerifyClearsigned(openpgp.EntityList{c.Public()}, signed, c.now)
	}
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return signed, nil
}

// Armored returns binary OpenPGP data as text, with a checksum, which gpgv before 2.4
// needs. kind is as in openpgp.SignatureType.
func Armored(kind string, data []byte) []byte {
	var b bytes.Buffer
	w, err := armor.EncodeWithChecksumOption(&b, kind, nil, true)
	if err == nil {
		_, err = w.Write(data)
		err = cmp.Or(err, w.Close())
	}
	if err != nil {
		panic(err) // a buffer never fails
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// Unarmored is the reverse of Armored.
func Unarmored(data []byte) ([]byte, error) {
	block, err := armor.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(block.Body)
}
