//go:build !hosts

package repository

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/packaging/signing"
)

// home is one of gpg's own, with an agent that ends with the test.
type home struct {
	t   *testing.T
	dir string
}

func newHome(t *testing.T) *home {
	t.Helper()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("SKIPPED, nothing was tested: gpg is not here")
	}
	// A socket's path must be short.
	dir, err := os.MkdirTemp("/tmp", "gpg-")
	check(t, err)
	h := &home{t, dir}
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", dir, "--kill", "all").Run()
		os.RemoveAll(dir)
	})
	return h
}

func (h *home) gpg(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("gpg", append([]string{"--homedir", h.dir, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		h.t.Fatalf("gpg %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// file exports the secret key into a file of its own.
func (h *home) file(user string) string {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), "secret.asc")
	check(h.t, os.WriteFile(path, []byte(h.gpg("--armor", "--export-secret-keys", user)), 0o600))
	return path
}

func TestTheKeyMayBeGPGs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.gpg("--faked-system-time", begun.UTC().Format("20060102T150405!"), "--quick-generate-key", "agent@example.com", "rsa3072", "sign", "never")
	s := newShelf(t)
	s.key.keyring = filepath.Join(h.dir, "trusted.gpg")
	check(t, os.WriteFile(s.key.keyring, []byte(h.gpg("--export", "agent@example.com")), 0o600))
	s.env = []string{"GNUPGHOME=" + h.dir}
	signed := Options{Key: signing.Key{GPG: "agent@example.com"}, Env: s.env}
	s.publish("--gpg-key", "agent@example.com", "--packages", otherStandIns(t, "1.0.0", signed), "--valid-for", "48h")
	s.offers("1.0.0")
	// The same key from a file, without gpg.
	s.publish("--key", h.file("agent@example.com"), "--packages", otherStandIns(t, "1.1.0", signed))
	s.offers("1.0.0", "1.1.0")
	s.refuses("gpg knows no key", "--gpg-key", "nobody@example.com")
	s.env = append(s.env, "PATH="+without(t, "gpg"))
	s.refuses("gpg is not installed", "--gpg-key", "agent@example.com")
}

// What hosts would refuse is refused here, before it is published.
func TestKeysThatHostsRefuse(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	generate := func(user string, args ...string) string {
		t.Helper()
		h.gpg(append([]string{"--faked-system-time", begun.UTC().Format("20060102T150405!")}, args...)...)
		return h.file(user)
	}
	s := newShelf(t)
	s.publish("--packages", standIns(t, "1.0.0"))
	for want, secret := range map[string]string{
		"SHA-1":                   generate("sha1@example.com", "--cert-digest-algo", "SHA1", "--quick-generate-key", "sha1@example.com", "rsa2048", "sign", "never"),
		"has 1024 bits":           generate("small@example.com", "--quick-generate-key", "small@example.com", "rsa1024", "sign", "never"),
		"it cannot sign":          generate("ended@example.com", "--quick-generate-key", "ended@example.com", "rsa2048", "sign", "seconds=60"),
		"do not accept this kind": generate("dsa@example.com", "--quick-generate-key", "dsa@example.com", "dsa2048", "sign", "never"),
	} {
		s.refuses(want, "--key", secret, "--previous-key", s.key.public)
	}

	// Ed25519 is good for all but the oldest; a subkey signs for its key.
	modern := generate("modern@example.com", "--quick-generate-key", "modern@example.com", "ed25519", "cert", "never")
	fingerprint := ""
	for line := range strings.Lines(h.gpg("--with-colons", "--list-keys", "modern@example.com")) {
		if f := strings.Split(line, ":"); f[0] == "fpr" {
			fingerprint = f[9]
			break
		}
	}
	s.refuses("it cannot sign", "--key", modern, "--previous-key", s.key.public)
	h.gpg("--faked-system-time", begun.UTC().Format("20060102T150405!"), "--quick-add-key", fingerprint, "ed25519", "sign", "never")
	previous := s.key.public
	s.key.keyring = filepath.Join(h.dir, "trusted.gpg")
	check(t, os.WriteFile(s.key.keyring, []byte(h.gpg("--export", "modern@example.com")), 0o600))
	s.publish("--key", h.file("modern@example.com"), "--previous-key", previous)
	s.offers("1.0.0")
}
