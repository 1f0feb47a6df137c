package parts

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"
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

// SoonEnds is how long before its end a certificate is reported.
const SoonEnds = 14 * 24 * time.Hour

// CertificateTrouble says that a certificate has run out, or soon will, and what to do. It is empty if neither is so.
func CertificateTrouble(end, now time.Time) string {
	left := end.Sub(now)
	const renew = `renew its files, and have the server read them ("systemctl reload teleport-find")`
	switch {
	case end.IsZero() || left > SoonEnds:
		return ""
	case left <= 0:
		return fmt.Sprintf("the certificate of the server ran out at %s, and no host that verifies it is answered: %s",
			end.UTC().Format("2006-01-02 15:04 UTC"), renew)
	}
	days := fmt.Sprintf("%d days", int(left/(24*time.Hour)))
	if left < 48*time.Hour {
		days = "1 day"
	}
	if left < 24*time.Hour {
		days = "less than a day"
	}
	return fmt.Sprintf("the certificate of the server runs out at %s, in %s: %s", end.UTC().Format("2006-01-02 15:04 UTC"), days, renew)
}

// Config returns a configuration that follows Reload.
func (k *KeyPair) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.current.Load(), nil },
	}
}
