// Package signer makes keys of gpg's, and signs and publishes packages with them by the
// scripts that people run.
package signer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Key is a key in a home of gpg's.
type Key struct {
	Home    string
	Keyring string // a file with the public key, as gpgv reads it
	module  string
}

// User is the user id of each key.
const User = "Example Inc. <ops@example.com>"

// New makes a key, with the command that the guide names. module is the module's folder.
// Close ends gpg's agent and removes the key.
func New(module string) (*Key, error) { return NewWith(module, "rsa3072", "sign") }

// NewWith makes a key of a kind, for some uses.
func NewWith(module, kind, uses string) (*Key, error) {
	module, err := filepath.Abs(module)
	if err != nil {
		return nil, err
	}
	// The agent's socket is in it, so its path must be short.
	home, err := os.MkdirTemp("/tmp", "gpg-")
	if err != nil {
		return nil, err
	}
	k := &Key{Home: home, Keyring: filepath.Join(home, "public.gpg"), module: module}
	if _, err := k.GPG("--passphrase", "", "--quick-generate-key", User, kind, uses, "never"); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	if err := k.export(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// AddSubkey adds a subkey that signs.
func (k *Key) AddSubkey() error {
	listed, err := k.GPG("--with-colons", "--list-keys")
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(listed, "\nfpr:::::::::")
	fingerprint, _, _ := strings.Cut(after, ":")
	if _, err := k.GPG("--passphrase", "", "--quick-add-key", fingerprint, "ed25519", "sign", "never"); err != nil {
		return err
	}
	return k.export()
}

func (k *Key) export() error {
	public, err := k.GPG("--export")
	if err != nil {
		return err
	}
	return os.WriteFile(k.Keyring, []byte(public), 0o600)
}

// Close ends gpg's agent and removes the key.
func (k *Key) Close() error {
	_, err := run(exec.Command("gpgconf", "--homedir", k.Home, "--kill", "all"))
	return errors.Join(err, os.RemoveAll(k.Home))
}

// GPG runs gpg in the key's home.
func (k *Key) GPG(args ...string) (stdout string, err error) {
	return run(exec.Command("gpg", append([]string{"--homedir", k.Home, "--batch", "--quiet"}, args...)...))
}

// Sign signs the packages in a folder.
func (k *Key) Sign(folder string) error {
	_, err := run(k.script("sign.sh", "ops@example.com", folder))
	return err
}

// Publish returns a run of publish.sh with the key.
func (k *Key) Publish(args ...string) *exec.Cmd {
	return k.script("publish.sh", append([]string{"--key", "ops@example.com"}, args...)...)
}

func (k *Key) script(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(k.module, "packaging", name), args...)
	cmd.Env = append(os.Environ(), "GNUPGHOME="+k.Home)
	return cmd
}

func run(cmd *exec.Cmd) (stdout string, err error) {
	var out, says strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, out.String(), says.String())
	}
	return out.String(), nil
}
