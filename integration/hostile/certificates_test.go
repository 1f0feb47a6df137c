//go:build hosts

package hostile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// name is what the server is called where an HTTP proxy leads to it; the
// updater never sends what goes to a loopback address through a proxy.
const name = "find.hostile.example"

// certificates are of one CA that a host trusts, but for the last.
type certificates struct {
	ca         []byte // PEM
	good       tls.Certificate
	expired    tls.Certificate
	notYet     tls.Certificate
	otherName  tls.Certificate
	selfSigned tls.Certificate
	strangers  tls.Certificate // of another CA that has the same name
}

func makeCertificates() (certificates, error) {
	var c certificates
	ca, caKey, err := authority("Hostile test CA")
	if err != nil {
		return c, err
	}
	other, otherKey, err := authority("Hostile test CA")
	if err != nil {
		return c, err
	}
	c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	now := time.Now()
	usual := x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		DNSNames: []string{name, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	make := func(to *tls.Certificate, parent *x509.Certificate, key *ecdsa.PrivateKey, change func(*x509.Certificate)) {
		if err != nil {
			return
		}
		template := usual
		if change != nil {
			change(&template)
		}
		*to, err = leaf(template, parent, key)
	}
	make(&c.good, ca, caKey, nil)
	make(&c.expired, ca, caKey, func(t *x509.Certificate) { t.NotBefore, t.NotAfter = now.Add(-48*time.Hour), now.Add(-24*time.Hour) })
	make(&c.notYet, ca, caKey, func(t *x509.Certificate) { t.NotBefore, t.NotAfter = now.Add(24*time.Hour), now.Add(48*time.Hour) })
	make(&c.otherName, ca, caKey, func(t *x509.Certificate) { t.DNSNames, t.IPAddresses = []string{"other.example"}, nil })
	make(&c.selfSigned, nil, nil, nil)
	make(&c.strangers, other, otherKey, nil)
	return c, err
}

func authority(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(72 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// leaf makes a server's certificate, signed by itself where there is no parent.
func leaf(template x509.Certificate, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template.SerialNumber = big.NewInt(2)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if parent == nil {
		parent, parentKey = &template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, &key.PublicKey, parentKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
