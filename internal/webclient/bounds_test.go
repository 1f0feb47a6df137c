package webclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"unicode/utf8"

	"teleport-update/internal/console"
	"teleport-update/internal/console/consoletest"
)

// Whoever answers chooses the words, and not how long they are.
func TestServersWordsAreBounded(t *testing.T) {
	for kind, word := range consoletest.Words() {
		certificate := &x509.Certificate{DNSNames: []string{word, word}}
		proxy := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
		for way, err := range map[string]error{
			"a certificate": PlainError(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: certificate, Host: "find.example.com"}}),
			"an HTTP proxy": checkConnect(context.Background(), proxy, &http.Request{Host: "find.example.com:443"}, &http.Response{StatusCode: 403, Status: "403 " + word}),
			"another error": PlainError(fmt.Errorf("malformed HTTP response %q", word)),
			"a plain error": PlainError(errors.New(word)),
		} {
			text := err.Error()
			if n := utf8.RuneCountInString(text); n > 610 || console.Line(text) != text {
				t.Errorf("%s, %s: an error of %d characters: %.100q", kind, way, n, text)
			}
		}
	}
}
