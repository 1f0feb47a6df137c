// Package signature verifies that a release's tarball was signed with a key that the host's
// owner trusts.
//
// # Form
//
// Beside TARBALL lies TARBALL.sig: one line of base64 (RFC 4648, with padding), with or
// without a line end, of an ECDSA signature in ASN.1 DER over the SHA-256 of the tarball, by
// a key on the curve P-256. `cosign sign-blob` with a static key and
//
//	openssl dgst -sha256 -sign KEY TARBALL | base64 -w0
//
// write this form. Nothing else is read: no bundle, no certificate, no second signature.
//
// # Keys
//
// Public keys are PEM files (PUBLIC KEY, one or more in a file; text around the blocks is a
// comment). Any of them may have signed,
// so that a key is rotated by adding the new one, signing with it, and removing the old one.
//
// # What a signature does not say
//
// It names neither the version nor the edition nor the time: an old tarball stays well signed
// for ever. A caller has to compare the tarball's own version and edition, and needs a lowest
// version.
package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"teleport-update/internal/plaintext"
)

const (
	// Suffix follows the tarball's name in the name of its signature file.
	Suffix = ".sig"

	// MaxFile is the largest size of a signature file, in bytes: several times the size of a
	// signature by a P-256 key.
	MaxFile = 512

	// MaxKeys is the largest size of a file of keys, in bytes.
	MaxKeys = 64 << 10

	// maxDER is the longest DER of two integers of 256 bits.
	maxDER = 72
)

// A Key is a public key, and the name of its file.
type Key struct {
	Name string // of its file, for people
	key  *ecdsa.PublicKey
}

// ID is the SHA-256 of the key's DER, in hexadecimal: `openssl pkey -pubin -in FILE -outform
// DER | sha256sum` prints the same.
func (k Key) ID() string {
	der, err := x509.MarshalPKIXPublicKey(k.key)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// ParseKeys reads the public keys in a PEM file of that name. There must be one, and each block
// must be an ECDSA key on P-256: a key that cannot verify anything would only seem to protect.
func ParseKeys(name string, data []byte) ([]Key, error) {
	if len(data) > MaxKeys {
		return nil, fmt.Errorf("%s is no file of keys: it has more than %d bytes", name, MaxKeys)
	}
	var keys []Key
	text := plaintext.UTF8(data)
	begun := bytes.Count(text, []byte("-----BEGIN ")) // the decoder skips damaged blocks
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		begun--
		if block.Type == "EC PARAMETERS" { // the name of the curve, which openssl ecparam writes before a key
			continue
		}
		key, err := parseKey(block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys = append(keys, Key{Name: name, key: key})
	}
	if begun != 0 {
		return nil, fmt.Errorf("%s holds a damaged PEM block", name)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no public key in PEM", name)
	}
	return keys, nil
}

func parseKey(block *pem.Block) (*ecdsa.PublicKey, error) {
	if strings.Contains(block.Type, "PRIVATE") {
		return nil, errors.New("it holds a private key; keep that where releases are signed, and give hosts the public one")
	}
	if block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("a PEM block is a %.40q, not a PUBLIC KEY", block.Type)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the public key is damaged: %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the key is not an ECDSA key on the curve P-256, with which releases are signed")
	}
	return key, nil
}

// FormError describes a file that is no signature in the form of the package.
type FormError struct{ Why string }

func (e *FormError) Error() string { return "it is no signature: " + e.Why }

// ForeignError is a well-formed signature over the digest that none of the keys made.
type ForeignError struct{ Keys []string }

func (e *ForeignError) Error() string {
	return "none of the keys made this signature of this tarball: " + strings.Join(e.Keys, ", ")
}

// Verify returns the key that made the signature in a file over the SHA-256, 64 hex digits. The
// error is a *FormError or a *ForeignError; other errors are about the arguments.
func Verify(keys []Key, digest string, file []byte) (Key, error) {
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != sha256.Size {
		return Key{}, fmt.Errorf("%.80q is no SHA-256", digest)
	}
	der, err := decode(file)
	if err != nil {
		return Key{}, err
	}
	foreign := &ForeignError{}
	for _, k := range keys {
		if ecdsa.VerifyASN1(k.key, sum, der) {
			return k, nil
		}
		foreign.Keys = append(foreign.Keys, k.Name)
	}
	return Key{}, foreign
}

// Check returns a *FormError unless a file has the form of a signature. It verifies nothing.
func Check(file []byte) error {
	_, err := decode(file)
	return err
}

// decode returns the DER in a signature's file.
func decode(file []byte) ([]byte, error) {
	if len(file) > MaxFile {
		return nil, &FormError{fmt.Sprintf("it has more than %d bytes", MaxFile)}
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(file), "\n"), "\r")
	if line == "" {
		return nil, &FormError{"it is empty"}
	}
	if strings.ContainsAny(line, "\r\n") {
		return nil, &FormError{"it has more than one line"}
	}
	der, err := base64.StdEncoding.Strict().DecodeString(line)
	if err != nil {
		return nil, &FormError{fmt.Sprintf("%.24q is not base64", line)}
	}
	if len(der) > maxDER {
		return nil, &FormError{"it is longer than a signature by a P-256 key"}
	}
	return der, nil
}
