package signing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// Key names the signing key: a file, or a key of gpg's.
type Key struct {
	File           string // of a secret key
	PassphraseFile string // its first line opens File; empty: File has no passphrase
	GPG            string // a name for gpg's --local-user, best a fingerprint
}

// Named reports whether there is a key at all.
func (k Key) Named() bool { return k.File != "" || k.GPG != "" }

// Open returns the key's signer. Signatures of a key in a file have the time from now,
// and gpg's have the present time.
func (k Key) Open(ctx context.Context, now func() time.Time) (Signer, error) {
	if k.File != "" && k.GPG != "" {
		return nil, errors.New("--key and --gpg-key name two keys: one signs")
	}
	if k.GPG != "" {
		return AskGPG(ctx, k.GPG, now())
	}
	if k.File == "" {
		return nil, errors.New("which key signs? Say --key FILE or --gpg-key FINGERPRINT; mkrepository --new-key FILE makes one")
	}
	passphrase, err := k.Passphrase()
	if err != nil {
		return nil, err
	}
	return OpenKey(k.File, passphrase, now)
}

// At returns the key's signer for content with a date. Its signatures have that time or,
// if the key is newer, the key's, so that the same content and key give the same bytes.
// Each signature is verified before it is returned.
func (k Key) At(ctx context.Context, date time.Time) (Signer, error) {
	now := time.Now()
	today, err := k.Open(ctx, func() time.Time { return now })
	if err != nil {
		return nil, err
	}
	if begins := Begins(today.Public(), now); begins.After(date) {
		date = begins
	}
	signer, err := k.Open(ctx, func() time.Time { return date })
	if err != nil {
		return nil, err
	}
	return Checked(signer, date), nil
}

// Passphrase returns the first line of PassphraseFile, or nil if no file is named.
func (k Key) Passphrase() ([]byte, error) {
	if k.PassphraseFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(k.PassphraseFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return nil, fmt.Errorf("the first line of %s is empty", k.PassphraseFile)
	}
	return line, nil
}

// Begins returns when a key got its present form: earlier signatures are not valid. now
// is a time at which the key can sign.
func Begins(entity *openpgp.Entity, now time.Time) time.Time {
	begins := entity.PrimaryKey.CreationTime
	later := func(t time.Time) {
		if t.After(begins) {
			begins = t
		}
	}
	if self, err := entity.PrimarySelfSignature(); err == nil {
		later(self.CreationTime)
	}
	if key, ok := entity.SigningKey(now); ok {
		later(key.PublicKey.CreationTime)
		if key.SelfSignature != nil {
			later(key.SelfSignature.CreationTime)
		}
	}
	return begins
}
