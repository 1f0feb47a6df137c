package pgtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Network holds the data for TCP connections to a server.
type Network struct {
	Address string // HOST:PORT, of the loopback
	CA      string // file with the authority of its certificate
}

// ListenTLS restarts the server with TCP and TLS, at a loopback address that no other test has. The certificate is for
// names, valid until the time; other.pem is for another name. hba are the lines of pg_hba.conf for TCP.
func (s *Server) ListenTLS(until time.Time, names []string, hba string) Network {
	s.t.Helper()
	pid := os.Getpid()
	address := fmt.Sprintf("127.%d.%d.%d", 1+rand8()%250, pid%250, 1+rand8()%250)
	n := Network{Address: address + ":5432", CA: filepath.Join(s.socket, "ca.pem")}
	s.certificate(n.CA, until, append([]string{address}, names...))
	s.settings("ssl_key_file = 'server.key'", "ssl_cert_file = 'server.pem'", "listen_addresses = '"+address+"'", "ssl = on")
	s.put(filepath.Join(s.dir, "pg_hba.conf"), []byte("local all all trust\nlocal replication all trust\n"+hba+"\n"))
	s.run("pg_ctl", "stop", "-m", "fast", "-w", "-D", s.dir)
	<-s.ended
	s.Boot()
	return n
}

func rand8() int {
	var b [1]byte
	rand.Read(b[:])
	return int(b[0])
}

// Configure adds lines to the settings; those that need no restart are in force when it returns.
func (s *Server) Configure(lines ...string) {
	s.t.Helper()
	s.settings(lines...)
	s.run("pg_ctl", "reload", "-D", s.dir)
	time.Sleep(300 * time.Millisecond) // the signal goes to all of its processes
}

// certificate writes an authority, and a certificate of it for the server.
func (s *Server) certificate(caFile string, until time.Time, names []string) {
	s.t.Helper()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	begin := time.Now().Add(-48 * time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, NotBefore: begin, NotAfter: begin.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	other := &x509.Certificate{SerialNumber: big.NewInt(3), NotBefore: begin, NotAfter: until, DNSNames: []string{"other.example.com"}}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server of a test"}, NotBefore: begin, NotAfter: until,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	block := func(kind string, data []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}) }
	otherDER, err := x509.CreateCertificate(rand.Reader, other, ca, key.Public(), caKey)
	must(err)
	s.put(filepath.Join(s.dir, "other.pem"), block("CERTIFICATE", otherDER))
	s.put(caFile, block("CERTIFICATE", caDER))
	s.put(filepath.Join(s.dir, "server.pem"), block("CERTIFICATE", der))
	s.put(filepath.Join(s.dir, "server.key"), block("PRIVATE KEY", keyDER))
}

// put writes a file as the server's user.
func (s *Server) put(name string, data []byte) {
	s.t.Helper()
	os.Remove(name)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	uid, gid := nobody(s.t)
	if err := os.Chown(name, uid, gid); err != nil {
		s.t.Fatal(err)
	}
}
