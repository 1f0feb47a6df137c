package parts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/internal/durable"
)

const (
	// authorityLife is the life of a CA and its certificates: people who trust a CA by
	// hand should not have to do it again soon.
	authorityLife = 10 * 365 * 24 * time.Hour
	// renewBefore is how long before its end a stored CA is replaced.
	renewBefore = 30 * 24 * time.Hour
	// clockSkew is how far a host's clock may be behind.
	clockSkew = time.Hour

	authorityKey = "ca.key"
)

// AuthorityFile is the name of the certificate to trust, in the folder of
// LoadAuthority.
const AuthorityFile = "ca.pem"

// Authority is a certificate authority of the server's own, for test set-ups
// and for networks without a PKI.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority that lives as long as the process. Its certificate is
// valid for these names and addresses, and for names below them. So a thief of the key
// can impersonate this server, but no other server that its hosts talk to. Without names
// it is valid for all.
func NewAuthority(names ...string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("teleport-find CA " + rand.Text()[:6])
	template.IsCA = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if len(names) > 0 {
		constrain(template, names)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key}, nil
}

// constrain limits a CA to names. If there are no names, or no addresses, it sets a
// limit that nothing meets: without a limit, all would be allowed.
func constrain(ca *x509.Certificate, names []string) {
	ca.PermittedDNSDomainsCritical = true
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			ca.PermittedIPRanges = append(ca.PermittedIPRanges, single(ip))
		} else {
			ca.PermittedDNSDomains = append(ca.PermittedDNSDomains, domain(name))
		}
	}
	if len(ca.PermittedDNSDomains) == 0 {
		ca.PermittedDNSDomains = []string{"invalid"} // RFC 2606
	}
	if len(ca.PermittedIPRanges) == 0 {
		ca.PermittedIPRanges = []*net.IPNet{single(net.IPv4zero)}
	}
}

func single(ip net.IP) *net.IPNet {
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	return &net.IPNet{IP: ip, Mask: net.CIDRMask(8*len(ip), 8*len(ip))}
}

func domain(name string) string { return strings.TrimSuffix(strings.TrimPrefix(name, "*."), ".") }

// Permits reports whether hosts that trust the authority accept its certificate for this
// name or address.
func (a *Authority) Permits(name string) bool {
	ca := a.cert
	if len(ca.PermittedDNSDomains) == 0 && len(ca.PermittedIPRanges) == 0 {
		return true
	}
	if ip := net.ParseIP(name); ip != nil {
		return slices.ContainsFunc(ca.PermittedIPRanges, func(n *net.IPNet) bool { return n.Contains(ip) })
	}
	name = strings.ToLower(domain(name))
	return slices.ContainsFunc(ca.PermittedDNSDomains, func(d string) bool {
		d = strings.ToLower(d)
		return name == d || strings.HasSuffix(name, "."+d)
	})
}

// LoadAuthority returns the authority in dir. If there is none, it makes one for these names (see
// NewAuthority) and writes ca.pem and ca.key. The certificate is written last: without it, nobody can
// have trusted the authority.
func LoadAuthority(dir string, names ...string) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, AuthorityFile), filepath.Join(dir, authorityKey)
	if _, err := os.Stat(certFile); errors.Is(err, fs.ErrNotExist) {
		a, err := NewAuthority(names...)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(a.key)
		if err != nil {
			return nil, err
		}
		if err := durable.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		if err := durable.WriteFile(keyFile, keyPEM, 0o600); err != nil {
			return nil, err
		}
		return a, durable.WriteFile(certFile, a.PEM(), 0o644)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA kept in %s: %w; put the right files back, or remove both and have hosts trust a new CA", dir, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s is not a CA that this program made", certFile)
	}
	if time.Until(pair.Leaf.NotAfter) < renewBefore {
		return nil, fmt.Errorf("the CA in %s ends at %s: remove %s and %s, and have hosts trust the new one",
			dir, pair.Leaf.NotAfter.Format(time.DateOnly), AuthorityFile, authorityKey)
	}
	return &Authority{cert: pair.Leaf, key: key}, nil
}

// PEM returns the certificate to trust.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Config returns a configuration with a new certificate for these names and IP
// addresses. A name that the authority does not permit is an error: no host would
// accept the certificate.
func (a *Authority) Config(names []string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("teleport-find")
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if !a.Permits(name) {
			return nil, fmt.Errorf("the CA is for other names than %s: remove its %s and %s, and have hosts trust the new one", name, AuthorityFile,
				authorityKey)
		}
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for %q: %w", names, err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, nil
}

func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes([]byte(rand.Text()[:16])),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLife),
		BasicConstraintsValid: true,
	}
}
