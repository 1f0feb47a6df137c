package webclient

import (
	"bytes"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A request with a body takes no more certificates than one without: reading all of the system's is most of what a
// report would cost.
func TestABodyIsSentWithTheFewestCertificatesThatWillDo(t *testing.T) {
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, string(body))
	}))
	defer server.Close()
	for name, tc := range map[string]struct {
		narrow bool // trusts the server
		loaded int
	}{"the narrower set is enough": {true, 1}, "the wider set is needed": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			got = nil
			loaded := 0
			set := func(trusts bool) func() (*x509.CertPool, error) {
				return func() (*x509.CertPool, error) {
					loaded++
					pool := x509.NewCertPool()
					if trusts {
						pool.AddCert(server.Certificate())
					}
					return pool, nil
				}
			}
			w := &widening{plain: newTransport(nil)}
			w.add(set(tc.narrow), nil)
			w.add(set(true), nil)
			defer w.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader([]byte("the body")))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := w.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if loaded != tc.loaded || len(got) != 1 || got[0] != "the body" {
				t.Errorf("%d sets were read, and the server got %q", loaded, got)
			}
		})
	}
}
