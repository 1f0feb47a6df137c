package signing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// gpgSigner signs with gpg, and so with gpg's agent, which may keep the key on a card.
type gpgSigner struct {
	ctx    context.Context
	key    string
	public *openpgp.Entity
}

// AskGPG returns a signer for a key of gpg's. The key is a name for gpg's --local-user,
// best a fingerprint.
func AskGPG(ctx context.Context, key string, now time.Time) (Signer, error) {
	s := &gpgSigner{ctx: ctx, key: key}
	exported, err := s.run(nil, "--export", "--export-options=export-minimal", "--", key)
	if err != nil {
		return nil, err
	}
	keys, err := readKeys(bytes.NewReader(exported))
	if err != nil {
		return nil, fmt.Errorf("gpg knows no key %q: %w", key, err)
	}
	if len(keys) != 1 {
		return nil, fmt.Errorf("gpg knows %d keys %q: name one by its fingerprint", len(keys), key)
	}
	s.public = keys[0]
	if err := CheckKey(s.public, now); err != nil {
		return nil, fmt.Errorf("gpg's key %q: %w", key, err)
	}
	return s, nil
}

func (s *gpgSigner) Public() *openpgp.Entity { return s.public }

func (s *gpgSigner) Detached(message []byte, lifetime time.Duration) ([]byte, error) {
	args := []string{"--detach-sign"}
	if lifetime > 0 {
		args = append([]string{fmt.Sprintf("--default-sig-expire=seconds=%d", lifetime/time.Second)}, args...)
	}
	return s.sign(message, args...)
}

func (s *gpgSigner) Clearsigned(text []byte) ([]byte, error) { return s.sign(text, "--clear-sign") }

func (s *gpgSigner) sign(message []byte, args ...string) ([]byte, error) {
	return s.run(message, append([]string{"--local-user", s.key, "--digest-algo", "SHA256"}, args...)...)
}

// run leaves the terminal to gpg: its agent may have to ask for a passphrase.
func (s *gpgSigner) run(stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(s.ctx, "gpg", append([]string{"--batch", "--quiet"}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("gpg is not installed: a key in a file needs none")
	}
	if err != nil {
		return nil, fmt.Errorf("gpg %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(says.String()))
	}
	return out.Bytes(), nil
}
