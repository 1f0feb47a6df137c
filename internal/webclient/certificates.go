package webclient

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"teleport-update/internal/plaintext"
	"teleport-update/internal/regular"
)

// maxCAFile is far above any bundle (a system's whole bundle is under 512 KiB) and keeps a
// mistaken path from filling the memory.
const maxCAFile = 4 << 20

// readCertificates returns an error for blocks that x509.CertPool.AppendCertsFromPEM would skip in
// silence: a private key, a certificate cut in the middle.
func readCertificates(path string) ([]*x509.Certificate, error) {
	data, err := regular.Read(path, maxCAFile, 0)
	if unsuitable, ok := errors.AsType[*regular.UnsuitableError](err); ok {
		return nil, fmt.Errorf("CA file %w", unsuitable)
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w", err)
	}
	data = plaintext.UTF8(data)
	var certs []*x509.Certificate
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("CA file %s holds a PEM block %.40q; only certificates belong there", path, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("CA file %s, certificate %d: %w", path, len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if begun := bytes.Count(data, []byte("-----BEGIN ")); begun > len(certs) {
		return nil, fmt.Errorf("CA file %s is damaged: of %d PEM blocks, %d can be read", path, begun, len(certs))
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("CA file %s holds no PEM certificate", path)
	}
	return certs, nil
}
