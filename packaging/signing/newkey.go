package signing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/mail"
	"os"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// NewKey makes an RSA key without an end for a user id, such as "Example Inc.
// <ops@example.com>", and writes it to a new file for its owner alone. passphrase may
// be nil. The updaters of RHEL 7 and Debian 11 understand RSA, and so do today's.
func NewKey(path, userID string, passphrase []byte, now time.Time) (*openpgp.Entity, error) {
	name, address := userID, ""
	if parsed, err := mail.ParseAddress(userID); err == nil {
		name, address = parsed.Name, parsed.Address
	}
	config := pgpConfig(func() time.Time { return now }, 0)
	config.Algorithm, config.RSABits = packet.PubKeyAlgoRSA, 4096
	entity, err := openpgp.NewEntity(name, "", address, config)
	if err != nil {
		return nil, fmt.Errorf("make a key for %q: %w", userID, err)
	}
	entity.Subkeys = nil // it is for encryption, and some rpm take no key with more than one
	if passphrase != nil {
		if err := entity.EncryptPrivateKeys(passphrase, config); err != nil {
			return nil, err
		}
	}
	var secret bytes.Buffer
	if err := entity.SerializePrivateWithoutSigning(&secret, config); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("there is a file %s already: no key is written over it", path)
	}
	if err != nil {
		return nil, err
	}
	_, err = f.Write(Armored(openpgp.PrivateKeyType, secret.Bytes()))
	if err = cmp.Or(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return entity, nil
}
