package fetch

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"teleport-update/internal/webclient"
)

func TestARedirectThatIsRefusedIsNotTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		to       string // "" is the same place
		expect   string
		requests int32
	}{
		"the checksum's, down from https":  {"http://127.0.0.1:1/x", "", 1},
		"the tarball's, down from https":   {"http://127.0.0.1:1/x", strings.Repeat("a", 64), 1},
		"to plain http elsewhere":          {"http://cdn.example/x", "", 1},
		"to a file":                        {"file:///etc/passwd", "", 1},
		"to itself for ever":               {"", "", 10},
		"to where nobody listens, instead": {"https://127.0.0.1:1/x", "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				to := tc.to
				if to == "" {
					to = r.URL.Path
				}
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
			}))
			t.Cleanup(srv.Close)
			ca := filepath.Join(t.TempDir(), "ca.pem")
			must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
			client, err := webclient.New(webclient.Options{CAFile: ca})
			must(t, err)
			f, log := testFetcher(t, client)
			_, err = f.Fetch(context.Background(), Request{
				Release: oss("15.1.1"), Sources: []*Template{mustTemplate(t, srv.URL+"/{{.Version}}.tgz")}, ExpectSHA256: tc.expect,
			})
			_, refused := errors.AsType[*webclient.RefusedError](err)
			if n := requests.Load(); err == nil || n != tc.requests || refused == (n == 3) {
				t.Errorf("%d requests, error %v; want %d requests\n%s", n, err, tc.requests, log)
			}
		})
	}
}
