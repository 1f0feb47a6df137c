package parts

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCertificatesOfAnAuthority(t *testing.T) {
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.Config([]string{"find.example", "127.0.0.1", "::1", "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		trust *Authority
		host  string
		now   time.Time
		ok    bool
	}{
		{"a name", authority, "find.example", time.Now(), true},
		{"an address", authority, "192.0.2.7", time.Now(), true},
		{"an IPv6 address", authority, "::1", time.Now(), true},
		{"in nine years", authority, "find.example", time.Now().AddDate(9, 0, 0), true},
		{"a host whose clock is half an hour late", authority, "find.example", time.Now().Add(-30 * time.Minute), true},
		{"another name", authority, "other.example", time.Now(), false},
		{"a name below", authority, "a.find.example", time.Now(), false},
		{"another authority", other, "find.example", time.Now(), false},
		{"in eleven years", authority, "find.example", time.Now().AddDate(11, 0, 0), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(tc.trust.PEM()) {
				t.Fatal("no certificate in the PEM")
			}
			leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.host, CurrentTime: tc.now})
			if (err == nil) != tc.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

// Whoever has the key of a CA for one server can make certificates, and no host takes one
// for another name: neither this program's client nor OpenSSL's, which apt and curl use.
func TestAnAuthorityIsGoodForItsNamesAlone(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Log("NOT TESTED with openssl: it is not installed")
	}
	all := []string{"find.example.com", "a.find.example.com", "other.example.com", "example.com", "teleport.dev", "localhost", "127.0.0.1", "::1", "192.0.2.7", "192.0.2.8", "2001:db8::7"}
	for _, names := range [][]string{
		{"find.example.com"}, {"192.0.2.7"}, {"2001:db8::7"}, {"localhost", "127.0.0.1", "::1", "find.example.com", "192.0.2.7"}, {"Find.Example.COM."}, {"*.find.example.com"},
	} {
		authority, err := NewAuthority(names...)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority.PEM())
		for _, name := range all {
			want := permitted(names, name)
			if _, err := authority.Config([]string{name}); (err == nil) != want {
				t.Errorf("a CA for %q issues for %s: %v", names, name, err)
			}
			// A thief does not ask.
			thief := &Authority{cert: withoutLimits(authority.cert), key: authority.key}
			config, err := thief.Config([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			der := config.Certificates[0].Certificate[0]
			leaf, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); (err == nil) != want {
				t.Errorf("a certificate for %s of a CA for %q: %v", name, names, err)
			}
			if openssl == "" {
				continue
			}
			dir := t.TempDir()
			ca, cert := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem")
			truncate(t, ca, string(authority.PEM()))
			truncate(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
			out, err := exec.Command(openssl, "verify", "-CAfile", ca, "-purpose", "sslserver", cert).CombinedOutput()
			if (err == nil) != want {
				t.Errorf("openssl, of a certificate for %s of a CA for %q: %v\n%s", name, names, err, out)
			}
		}
	}
}

// permitted: a name is one of those, or below one.
func permitted(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		n = strings.ToLower(strings.Trim(n, "*."))
		return name == n || net.ParseIP(name) == nil && strings.HasSuffix(name, "."+n)
	})
}

// withoutLimits is a certificate whose names are not looked at when it issues.
func withoutLimits(cert *x509.Certificate) *x509.Certificate {
	free := *cert
	free.PermittedDNSDomains, free.PermittedIPRanges = nil, nil
	return &free
}

// A CA that an older program made has no limits, and hosts trust it: it stays as it is.
func TestAnAuthorityOfBeforeIsGoodForAllNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := LoadAuthority(dir); err != nil {
		t.Fatal(err)
	}
	kept, err := LoadAuthority(dir, "find.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Config([]string{"other.example.com", "192.0.2.7"}); err != nil {
		t.Error(err)
	}
}

func TestAnAuthorityIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadAuthority(dir)
	if err != nil || !bytes.Equal(first.PEM(), again.PEM()) {
		t.Errorf("another authority was made: %v", err)
	}
	if _, err := again.Config([]string{"x"}); err != nil {
		t.Errorf("the one kept cannot issue: %v", err)
	}
	for name, want := range map[string]fs.FileMode{AuthorityFile: 0o644, authorityKey: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}

	// Crashed before the certificate was written: nobody trusts it yet.
	if err := os.Remove(filepath.Join(dir, AuthorityFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAuthority(dir); err != nil {
		t.Errorf("a key alone: %v", err)
	}
}

func TestAnAuthorityThatCannotBeUsedIsNeverReplaced(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"the key is lost", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, authorityKey)) }, "put the right files back"},
		{"the certificate is damaged", func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, AuthorityFile), "x") }, "put the right files back"},
		{"the key is another's", func(t *testing.T, dir string) {
			if _, err := LoadAuthority(dir + "2"); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir+"2", authorityKey), filepath.Join(dir, authorityKey)); err != nil {
				t.Fatal(err)
			}
		}, "put the right files back"},
		{"no CA", func(t *testing.T, dir string) {
			reissue(t, dir, func(c *x509.Certificate) { c.IsCA, c.MaxPathLenZero = false, false })
		}, "not a CA"},
		{"it ends soon", func(t *testing.T, dir string) {
			reissue(t, dir, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(renewBefore - time.Hour) })
		}, "remove ca.pem and ca.key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if _, err := LoadAuthority(dir); err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, dir)
			before, _ := os.ReadFile(filepath.Join(dir, AuthorityFile))
			if _, err := LoadAuthority(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want an error with %q", err, tc.want)
			}
			if after, _ := os.ReadFile(filepath.Join(dir, AuthorityFile)); !bytes.Equal(before, after) {
				t.Error("the certificate was written over")
			}
		})
	}
}

func TestKeyPairFollowsRenewal(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	renew := func() *x509.Certificate {
		authority, err := LoadAuthority(filepath.Join(t.TempDir(), "state"))
		if err != nil {
			t.Fatal(err)
		}
		config, err := authority.Config([]string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(config.Certificates[0].PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		truncate(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: config.Certificates[0].Certificate[0]})))
		truncate(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
		return authority.cert
	}
	ca := renew()
	pair, err := LoadKeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", pair.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go http.Serve(listener, http.NotFoundHandler())
	address := listener.Addr().String()
	trusts := func(ca *x509.Certificate) bool {
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots})
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	if !trusts(ca) {
		t.Error("the certificate is not served")
	}
	renewed := renew()
	if !trusts(ca) || trusts(renewed) {
		t.Error("the files are followed without being asked to")
	}
	if err := pair.Reload(); err != nil || !trusts(renewed) {
		t.Errorf("the renewed certificate is not served: %v", err)
	}
	truncate(t, keyFile, "x")
	if err := pair.Reload(); err == nil || !strings.Contains(err.Error(), keyFile) || !trusts(renewed) {
		t.Errorf("after a bad renewal: %v", err)
	}
	if _, err := LoadKeyPair(certFile, keyFile); err == nil {
		t.Error("a bad key was loaded")
	}
}

// reissue changes the certificate of the authority in dir.
func reissue(t *testing.T, dir string, change func(*x509.Certificate)) {
	t.Helper()
	authority, err := LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	template := *authority.cert
	change(&template)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, authority.key.Public(), authority.key)
	if err != nil {
		t.Fatal(err)
	}
	truncate(t, filepath.Join(dir, AuthorityFile), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

func truncate(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
