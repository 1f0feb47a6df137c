package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// pairUntil writes a certificate that ends at a time, and its key.
func pairUntil(t *testing.T, dir string, end time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-90 * 24 * time.Hour), NotAfter: end, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return cert, key
}

// A certificate that has run out, or soon will, is in the log of the start, in status, and in a metric.
func TestTheEndOfACertificateIsSaid(t *testing.T) {
	for left, want := range map[time.Duration]string{
		-time.Hour:          "the certificate of the server ran out at ",
		25 * time.Hour:      ", in 1 day: renew its files",
		60 * 24 * time.Hour: "",
	} {
		dir := t.TempDir()
		end := time.Now().Add(left)
		cert, key := pairUntil(t, dir, end)
		p := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--cert", cert, "--key", key, "--store", filepath.Join(dir, "store", "store.db"),
			"--admin-socket", filepath.Join(dir, "admin.sock"), "--metrics-listen", "127.0.0.1:0")
		status := (&kept{t: t, dir: dir, server: p}).must("status")
		for where, text := range map[string]string{"the log": p.log.String(), "status": status} {
			if says := strings.Contains(text, "certificate of the server"); says != (want != "") || !strings.Contains(text, want) {
				t.Errorf("%s left: %s says\n%s\nwant %q", left, where, text, want)
			}
		}
		// Whoever looks at the end of a certificate cannot demand a valid one.
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		resp, err := client.Get(strings.Replace(metricsOf(t, p), "http:", "https:", 1) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !regexp.MustCompile(`(?m)^teleport_find_certificate_expiry_timestamp_seconds 1\.`).Match(metrics) {
			t.Errorf("%s left: no metric says when it ends:\n%s", left, metrics)
		}
	}
}
