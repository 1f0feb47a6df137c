package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// Memory is what updates.yaml remembers of the policy of the host's owner.
type Memory struct {
	File bool `yaml:"file"`
	Keys bool `yaml:"keys"`
}

// covers reports whether nothing of the other is forgotten.
func (m Memory) covers(other Memory) bool {
	return (m.File || !other.File) && (m.Keys || !other.Keys)
}

// ruled is a host whose owner has made a policy since its last run.
func ruled(ctx context.Context, w *World) error {
	if err := w.climb(ctx, V1); err != nil {
		return err
	}
	return w.rule("policy.yaml", []byte("minimum: "+V1+"\n"))
}

// keyed is a host whose owner has given it a key since its last run. The next version is signed
// with it.
func keyed(ctx context.Context, w *World) error {
	if err := signedBy(ctx, w); err != nil {
		return err
	}
	key, err := os.ReadFile(w.key())
	if err != nil {
		return err
	}
	return w.rule("keys.d/release.pem", key)
}

// signedBy is a host without a policy, and a mirror whose next version is signed by a key.
func signedBy(ctx context.Context, w *World) error {
	if err := w.climb(ctx, V1); err != nil {
		return err
	}
	return w.sign(V2)
}

// unruled is a host that remembers a policy which is gone.
func unruled(ctx context.Context, w *World) error {
	if err := ruled(ctx, w); err != nil {
		return err
	}
	if err := w.Must(ctx, "update"); err != nil {
		return err
	}
	c, err := w.config()
	if err == nil && !c.Status.PolicySeen.File {
		err = errors.New("the policy is not remembered: there is nothing to forget")
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(w.Policy())
}

// afterForgetting types the command again, unless it was done, and returns the next run of the
// timer: that one sweeps what a killed command has left.
func (s *Stage) afterForgetting() []string {
	if c, err := s.config(); err == nil && !c.Status.PolicySeen.File {
		return []string{"update"}
	}
	if err := s.Must(context.Background(), s.Args(s.World)...); err != nil {
		return s.Args(s.World) // it fails again, and says why
	}
	return []string{"update"}
}

func (w *World) rule(name string, data []byte) error {
	path := filepath.Join(w.Policy(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// key is the file with the key that sign has signed with.
func (w *World) key() string { return filepath.Join(w.Dir, "release.pem") }

// sign puts the signature of a version beside its tarball, by a key of its own, until Reset.
func (w *World) sign(v string) error {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&secret.PublicKey)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.key(), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644); err != nil {
		return err
	}
	tarball := filepath.Join(w.releases(), release.Name(v, version.OSS))
	data, err := os.ReadFile(tarball)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	der, err := ecdsa.SignASN1(rand.Reader, secret, sum[:])
	if err != nil {
		return err
	}
	line := fmt.Appendln(nil, base64.StdEncoding.EncodeToString(der))
	w.catalog[v][signatureName] = digestOf(line)
	return os.WriteFile(tarball+".sig", line, 0o644)
}

// unsign takes all signatures away.
func (w *World) unsign() error {
	found, err := filepath.Glob(filepath.Join(w.releases(), "*.sig"))
	if err != nil {
		return err
	}
	for _, path := range found {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for _, content := range w.catalog {
		delete(content, signatureName)
	}
	return nil
}

// signatureName is the file in the record of a version that came with a signature.
const signatureName = "signature"
