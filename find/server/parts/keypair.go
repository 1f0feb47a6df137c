package parts

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// KeyPair is a certificate and its key from files that may be renewed while the
// server runs.
type KeyPair struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// LoadKeyPair reads PEM files.
func LoadKeyPair(certFile, keyFile string) (*KeyPair, error) {
	k := &KeyPair{certFile: certFile, keyFile: keyFile}
	if err := k.Reload(); err != nil {
		return nil, err
	}
	return k, nil
}

// Reload reads the files again. After an error the certificate stays as it was.
func (k *KeyPair) Reload() error {
	cert, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return fmt.Errorf("read the certificate %s and its key %s: %w", k.certFile, k.keyFile, err)
	}
	k.current.Store(&cert)
	return nil
}

// Config returns a configuration that follows Reload.
func (k *KeyPair) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.current.Load(), nil },
	}
}
