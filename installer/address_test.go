package installer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// proxyHost is an address of loopback on which a test has all ports for itself, with a
// certificate for a name.
type proxyHost struct {
	address string
	ca      string // file
	cert    tls.Certificate
	asked   atomic.Int32
}

func newProxyHost(t *testing.T, forAddress string) *proxyHost {
	t.Helper()
	h := &proxyHost{address: fmt.Sprintf("127.%d.%d.%d", 1+mathrand.N(254), mathrand.N(255), 1+mathrand.N(254))}
	if forAddress == "" {
		forAddress = h.address
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.ParseIP(forAddress)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	h.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	h.ca = filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, h.ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return h
}

// answers at a port.
func (h *proxyHost) answers(t *testing.T, port, status int) {
	t.Helper()
	l, err := tls.Listen("tcp", fmt.Sprintf("%s:%d", h.address, port), &tls.Config{Certificates: []tls.Certificate{h.cert}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h.asked.Add(1)
		w.WriteHeader(status)
		io.WriteString(w, `{"server_edition":"oss","agent_version":"1.0.0"}`)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

func TestEnableFindsThePortAtWhichTheProxyAnswers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("port 443 is root's")
	}
	const ok = http.StatusOK
	for name, tc := range map[string]struct {
		proxy, config string      // %s: the host
		answers       map[int]int // status by port
		certificate   string      // for another address
		want          string      // %s: the host
		fails         string
	}{
		"a bare --proxy is 443":                                    {proxy: "%s", answers: map[int]int{443: ok, 3080: ok}, want: "%s:443"},
		"a bare --proxy may be 3080":                               {proxy: "%s", answers: map[int]int{3080: ok}, want: "%s:3080"},
		"a bare URL may be 3080":                                   {proxy: "https://%s", answers: map[int]int{3080: ok}, want: "https://%s:3080"},
		"a port that was said is the port":                         {proxy: "%s:443", answers: map[int]int{3080: ok}, fails: "no connection to"},
		"an answer is an answer":                                   {proxy: "%s", answers: map[int]int{443: 500, 3080: ok}, fails: "500"},
		"404 is an answer":                                         {proxy: "%s", answers: map[int]int{443: 404, 3080: ok}, fails: "404"},
		"a certificate for another name is the end":                {proxy: "%s", answers: map[int]int{443: ok, 3080: ok}, certificate: "127.0.0.99", fails: "certificate"},
		"the second port's certificate must be for the name":       {proxy: "%s", answers: map[int]int{3080: ok}, certificate: "127.0.0.99", fails: "certificate"},
		"nobody answers":                                           {proxy: "%s", fails: "and at the other port of proxies"},
		"the agent's proxy_server is 3080":                         {config: "proxy_server: %s", answers: map[int]int{443: ok, 3080: ok}, want: "%s:3080"},
		"the agent's proxy_server may be 443":                      {config: "proxy_server: %s", answers: map[int]int{443: ok}, want: "%s:443"},
		"the agent's proxy_server with its port":                   {config: "proxy_server: %s:3081", answers: map[int]int{443: ok, 3080: ok}, fails: "no connection to"},
		"an auth server is a host":                                 {config: "auth_server: %s:3025", answers: map[int]int{3080: ok}, want: "%s:3080"},
		"an auth server with a port of a proxy":                    {config: "auth_server: %s:443", answers: map[int]int{443: ok, 3080: ok}, want: "%s:443"},
		"the first of several auth servers":                        {config: "auth_servers: [\"%s:3025\", other.example:3025]", answers: map[int]int{443: ok}, want: "%s:443"},
		"an auth server in a file of old":                          {config: "auth_servers: tcp://%s", answers: map[int]int{3080: ok}, want: "%s:3080"},
		"the proxy wins over the auth server":                      {config: "auth_server: other.example:3025\n  proxy_server: %s", answers: map[int]int{3080: ok}, want: "%s:3080"},
		"what was said wins over what the agent's configuration's": {proxy: "%s", config: "proxy_server: other.example", answers: map[int]int{3080: ok}, want: "%s:3080"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newProxyHost(t, tc.certificate)
			for port, status := range tc.answers {
				h.answers(t, port, status)
			}
			i := testInstaller(t)
			var log bytes.Buffer
			i.Machine.Host.Log = slog.New(slog.NewTextHandler(&log, nil))
			in := func(s string) string { return strings.ReplaceAll(s, "%s", h.address) }
			if tc.config != "" {
				writeFile(t, i.Machine.Host.Paths.AgentConfig, "teleport:\n  "+in(tc.config)+"\n")
				if err := os.Chmod(i.Machine.Host.Paths.AgentConfig, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			spec := state.Spec{Proxy: in(tc.proxy), Group: "g", CAFile: h.ca}
			byAgent := spec.Proxy == ""
			if byAgent {
				agent, err := host.ReadAgentSettings(i.Machine.Host.Paths.AgentConfig)
				if err != nil {
					t.Fatal(err)
				}
				spec.Proxy = agent.Proxy // as ResolveProxy does
			}
			answer, err := i.finder().askFirst(t.Context(), &spec, byAgent)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %+v, %v; want an error with %q", answer, err, tc.fails)
				}
				return
			}
			if err != nil || answer.Version != "1.0.0" || spec.Proxy != in(tc.want) {
				t.Errorf("got %+v from %q, %v; want %q", answer, spec.Proxy, err, in(tc.want))
			}
			if h.asked.Load() != 1 {
				t.Errorf("asked %d times", h.asked.Load())
			}
			if said := strings.Contains(log.String(), spec.Proxy); said == strings.HasSuffix(tc.config, ":443") {
				t.Errorf("it says %q", log.String())
			}
		})
	}
}
