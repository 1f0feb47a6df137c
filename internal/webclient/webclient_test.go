package webclient

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCheckURL(t *testing.T) {
	for _, tc := range []struct {
		url  string
		want string // in the error; empty: allowed
	}{
		{"https://cdn.example/a", ""},
		{"https://[2001:db8::1]:3080/", ""},
		{"http://127.0.0.1:8080/", ""},
		{"http://127.9.8.7/", ""},
		{"http://[::1]:8080/", ""},
		{"http://localhost/", ""},
		{"http://cdn.example/", "loopback"},
		{"http://10.0.0.1/", "loopback"},
		{"http://localhost.example/", "loopback"},
		{"http://127.0.0.1.example/", "loopback"},
		{"http://0.0.0.0/", "loopback"},
		{"https:///a", "no host"},
		{"ftp://cdn.example/", "https"},
		{"file:///etc/passwd", "https"},
		{"cdn.example", "https"},
	} {
		u, err := url.Parse(tc.url)
		if err != nil {
			t.Fatal(err)
		}
		err = CheckURL(u)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("CheckURL(%s) = %v; want an error with %q", tc.url, err, tc.want)
		}
	}
}

func TestTrust(t *testing.T) {
	private := httptest.NewTLSServer(ok)
	t.Cleanup(private.Close)
	privateCA := writeCA(t, private.Certificate())
	expired := serveExpired(t)
	wrongName := strings.Replace(private.URL, "127.0.0.1", "localhost", 1)

	for _, tc := range []struct{ name, caFile, url, want string }{
		{"a private CA that is trusted", privateCA, private.URL, ""},
		{"a private CA that is not", "", private.URL, "--ca-file"},
		{"another private CA", writeCA(t, expired.Certificate()), private.URL, "--ca-file"},
		{"a certificate for another name", privateCA, wrongName, "not localhost"},
		{"an expired certificate", writeCA(t, expired.Certificate()), expired.URL, "expired"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body, err := get(t, Options{CAFile: tc.caFile}, tc.url)
			if tc.want == "" && (err != nil || body != "ok") {
				t.Errorf("got %q, %v", body, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v; want an error with %q", err, tc.want)
			}
		})
	}
}

func TestCAFileThatCannotServe(t *testing.T) {
	server := httptest.NewTLSServer(ok)
	defer server.Close()
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for _, tc := range []struct{ name, content, want string }{
		{"empty", "", "no PEM certificate"},
		{"not PEM", "hello\n", "no PEM certificate"},
		{"a key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "PRIVATE KEY"},
		{"not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1"},
		{"cut in the middle", good + good[:len(good)/2], "damaged"},
		{"damaged before a good one", strings.Replace(good, "\n", "\n!", 2) + good, "damaged"},
		{"endless", strings.Repeat("#", maxCAFile+1), "larger"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := New(Options{CAFile: path})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v; want an error with %q and the path", err, tc.want)
			}
		})
	}
	if _, err := New(Options{CAFile: "/nonexistent/ca.pem"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	var referer string
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		referer = r.Referer()
		switch to := r.URL.Query().Get("to"); {
		case to != "":
			http.Redirect(w, r, to, http.StatusFound)
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			io.WriteString(w, "ok")
		}
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(plain.Config.Handler)
	defer secure.Close()
	to := func(target string) string { return "/?to=" + url.QueryEscape(target) }

	for _, tc := range []struct{ name, url, want string }{
		{"http to https", plain.URL + to(secure.URL+"/"), ""},
		{"https to https", secure.URL + to("/"), ""},
		{"loopback http to loopback http", plain.URL + to("/"), ""},
		{"https to http, even loopback", secure.URL + to(plain.URL+"/"), "refused a redirect"},
		{"https to http by way of https", secure.URL + to(to(plain.URL+"/")), "refused a redirect"},
		{"loopback http to the world", plain.URL + to("http://192.0.2.1/"), "loopback addresses only"},
		{"to a file", secure.URL + to("file:///etc/passwd"), "refused a redirect"},
		{"without end", secure.URL + "/loop", "gave up after 10"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			referer = ""
			body, err := get(t, Options{CAFile: writeCA(t, secure.Certificate())}, tc.url)
			if tc.want == "" && (err != nil || body != "ok") {
				t.Errorf("got %q, %v", body, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v; want an error with %q", err, tc.want)
			}
			if referer != "" {
				t.Errorf("the next server was told of %s", referer)
			}
		})
	}
}

func TestRequestsSayWhoAsksAndTakeBodiesAsTheyAre(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto+" "+r.UserAgent()+" ["+r.Header.Get("Accept-Encoding")+"]")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	body, err := get(t, Options{CAFile: writeCA(t, server.Certificate()), UserAgent: "updater/1"}, server.URL)
	if want := "HTTP/1.1 updater/1 []"; body != want || err != nil {
		t.Errorf("the server saw %q, %v; want %q", body, err, want)
	}
}

// The environment is read once per process, so what depends on it runs in a
// process of its own: this test again, with the variable below naming a case.
const childCase = "WEBCLIENT_TEST_CHILD"

func TestEnvironment(t *testing.T) {
	if url := os.Getenv(childCase); url != "" {
		body, err := get(t, Options{CAFile: os.Getenv("WEBCLIENT_TEST_CA")}, url)
		os.Stdout.WriteString("result: " + body)
		if err != nil {
			os.Stdout.WriteString(RedactError(err).Error())
		}
		return
	}
	plain := httptest.NewServer(ok)
	defer plain.Close()
	secure := httptest.NewTLSServer(ok)
	defer secure.Close()
	expired := serveExpired(t)
	caFile := writeCA(t, secure.Certificate())
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name string
		url  string
		env  []string
		want string
	}{
		{"https goes through the proxy", "https://example.com/",
			[]string{"HTTPS_PROXY=http://ann:secret@" + connectProxy(t, secure, "200 OK"), "WEBCLIENT_TEST_CA=" + caFile}, "result: ok"},
		{"a proxy's refusal is told without its password", "https://example.com/",
			[]string{"HTTPS_PROXY=http://ann:secret@" + connectProxy(t, secure, "403 Forbidden")}, "refused the connection to example.com:443: 403 Forbidden"},
		{"loopback goes through no proxy", plain.URL, []string{"HTTP_PROXY=http://192.0.2.1:1"}, "result: ok"},
		{"the system's CAs are trusted", secure.URL, []string{"SSL_CERT_FILE=" + caFile}, "result: ok"},
		{"a CA file adds to the system's CAs", secure.URL,
			[]string{"SSL_CERT_FILE=" + caFile, "WEBCLIENT_TEST_CA=" + writeCA(t, expired.Certificate())}, "result: ok"},
		{"the system's CAs are not read for a server of the CA file", secure.URL,
			[]string{"SSL_CERT_FILE=" + pipe, "WEBCLIENT_TEST_CA=" + caFile}, "result: ok"},
		{"the system's CAs are not read for plain http", plain.URL,
			[]string{"SSL_CERT_FILE=" + pipe, "WEBCLIENT_TEST_CA=" + caFile}, "result: ok"}, // reading a pipe nobody writes to never ends
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := t.Context()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestEnvironment$", "-test.timeout=20s")
			cmd.Env = append(tc.env, childCase+"="+tc.url, "SSL_CERT_DIR=/nonexistent")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("%v: %s; want %q", err, out, tc.want)
			}
			if strings.Contains(string(out), "secret") {
				t.Errorf("the output tells a password: %s", out)
			}
		})
	}
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })

func get(t *testing.T, opts Options, url string) (string, error) {
	t.Helper()
	client, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func writeCA(t *testing.T, cert *x509.Certificate) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	if err := os.WriteFile(path, append([]byte("# a comment, as bundles have\n"), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func serveExpired(t *testing.T) *httptest.Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-48 * time.Hour),
		NotAfter:              time.Now().Add(-24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(ok)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// connectProxy answers CONNECT with status and, when that is a 200, joins the
// client with target whatever host it asked for.
func connectProxy(t *testing.T, target *httptest.Server, status string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				reader := bufio.NewReader(client)
				if req, err := http.ReadRequest(reader); err != nil || req.Method != http.MethodConnect {
					return
				}
				io.WriteString(client, "HTTP/1.1 "+status+"\r\n\r\n")
				if !strings.HasPrefix(status, "200") {
					return
				}
				server, err := net.Dial("tcp", target.Listener.Addr().String())
				if err != nil {
					return
				}
				go io.Copy(server, reader)
				io.Copy(client, server)
			}()
		}
	}()
	return listener.Addr().String()
}
