package signing

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// OpenKey reads a secret key from a file, armored or not. passphrase is nil if the key
// has none. A file that others may read is an error.
func OpenKey(path string, passphrase []byte, now func() time.Time) (Signer, error) {
	s, err := openKey(path, passphrase, now)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	return s, nil
}

func openKey(path string, passphrase []byte, now func() time.Time) (*fileSigner, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read it (mode %04o): chmod 600 it", info.Mode().Perm())
	}
	keys, err := readKeys(f)
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, fmt.Errorf("the file holds %d keys: one is wanted", len(keys))
	}
	entity := keys[0]
	if entity.PrivateKey == nil {
		return nil, errors.New("it is a public key: the secret one is wanted")
	}
	if entity.PrivateKey.Encrypted && passphrase == nil {
		return nil, errors.New("it is protected by a passphrase: say --passphrase-file")
	}
	// A passphrase for a key without one does no harm.
	if err := entity.DecryptPrivateKeys(passphrase); err != nil {
		return nil, fmt.Errorf("the passphrase does not open it: %w", err)
	}
	if err := CheckKey(entity, now()); err != nil {
		return nil, err
	}
	key, _ := entity.SigningKey(now()) // CheckKey has checked it
	if key.PrivateKey == nil || key.PrivateKey.Dummy() {
		return nil, errors.New("the secret part of its signing key is not in the file")
	}
	return &fileSigner{entity, key, now}, nil
}

// ReadKeys reads keys, armored or not, from a file.
func ReadKeys(path string) (openpgp.EntityList, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	keys, err := readKeys(f)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	return keys, nil
}

// maxKeys is room for some keys with some signatures of others.
const maxKeys = 1 << 20

func readKeys(r io.Reader) (keys openpgp.EntityList, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxKeys))
	if err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte("-----BEGIN PGP ")) {
		keys, err = openpgp.ReadArmoredKeyRing(bytes.NewReader(data))
	} else {
		keys, err = openpgp.ReadKeyRing(bytes.NewReader(data))
	}
	if err == nil && len(keys) == 0 {
		err = errors.New("there is no key in it")
	}
	return keys, err
}

// minRSABits is the least that Debian 13's sqv takes; it takes no SHA-1 either.
const minRSABits = 2048

// CheckKey returns why hosts would refuse signatures by a key, or nil.
func CheckKey(entity *openpgp.Entity, now time.Time) error {
	key, ok := entity.SigningKey(now)
	if !ok {
		return errors.New("it cannot sign: it has expired, was revoked, is not valid yet, or is not a signing key")
	}
	self, _ := entity.PrimarySelfSignature()
	bindings := []*packet.Signature{self}
	if key.PublicKey != entity.PrimaryKey {
		bindings = append(bindings, key.SelfSignature, key.SelfSignature.EmbeddedSignature)
	}
	for _, sig := range bindings {
		if sig != nil && !slices.Contains([]crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}, sig.Hash) {
			return fmt.Errorf("its own signatures are made with %v, which Debian 13 refuses: make a new key, or sign this one again", sig.Hash)
		}
	}
	for _, public := range []*packet.PublicKey{entity.PrimaryKey, key.PublicKey} {
		switch public.PubKeyAlgo {
		case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly:
			if bits, err := public.BitLength(); err != nil || bits < minRSABits {
				return fmt.Errorf("it has %d bits: hosts want at least %d", bits, minRSABits)
			}
		case packet.PubKeyAlgoEdDSA, packet.PubKeyAlgoECDSA:
		default:
			return fmt.Errorf("hosts do not accept this kind of key (algorithm %d); all of them accept an RSA key", public.PubKeyAlgo)
		}
	}
	return nil
}

// Expires returns when the key ends: from then on hosts refuse everything that it
// signed. The zero time means never.
func Expires(entity *openpgp.Entity, now time.Time) (end time.Time) {
	add := func(key *packet.PublicKey, sig *packet.Signature) {
		if sig == nil || sig.KeyLifetimeSecs == nil || *sig.KeyLifetimeSecs == 0 {
			return
		}
		if at := key.CreationTime.Add(time.Duration(*sig.KeyLifetimeSecs) * time.Second); end.IsZero() || at.Before(end) {
			end = at
		}
	}
	self, _ := entity.PrimarySelfSignature()
	add(entity.PrimaryKey, self)
	if key, ok := entity.SigningKey(now); ok {
		add(key.PublicKey, key.SelfSignature)
	}
	return end
}

// Fingerprint returns the fingerprint for people to compare: hexadecimal, in groups of four.
func Fingerprint(entity *openpgp.Entity) string {
	var groups []string
	for group := range slices.Chunk([]byte(fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint)), 4) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, " ")
}

// PublicKeys returns keys without their secret parts, armored.
func PublicKeys(keys openpgp.EntityList) ([]byte, error) {
	var b bytes.Buffer
	for _, entity := range keys {
		if err := entity.Serialize(&b); err != nil {
			return nil, err
		}
	}
	return Armored(openpgp.PublicKeyType, b.Bytes()), nil
}
