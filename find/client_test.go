package find

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

const goodBody = `{"server_edition":"enterprise","agent_version":"v15.1.1","agent_autoupdate":true,"agent_update_jitter_seconds":10}`

var goodAnswer = Answer{Version: "15.1.1", Edition: version.Enterprise, AutoUpdate: true, Jitter: 10 * time.Second}

func TestAskSendsWhatIsKnown(t *testing.T) {
	var asked string
	client, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.RequestURI
		io.WriteString(w, goodBody)
	})
	for _, tc := range []struct {
		req  Request
		want string
	}{
		{Request{}, "GET /v1/webapi/find"},
		{Request{Host: "0f2c", Group: "a b&c=d", UpdateID: "77"}, "GET /v1/webapi/find?group=a+b%26c%3Dd&host=0f2c&update_id=77"},
		{Request{Group: "staging"}, "GET /v1/webapi/find?group=staging"},
	} {
		tc.req.Proxy = server.URL + "/"
		answer, err := client.Ask(t.Context(), tc.req)
		if answer != goodAnswer || err != nil {
			t.Fatalf("got %+v, %v", answer, err)
		}
		if asked != tc.want {
			t.Errorf("asked %s; want %s", asked, tc.want)
		}
	}
}

func TestAskOverPlainLoopback(t *testing.T) {
	client, _ := serve(t, http.NotFound)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, goodBody) }))
	defer server.Close()
	if answer, err := client.Ask(t.Context(), Request{Proxy: server.URL}); answer != goodAnswer || err != nil {
		t.Errorf("got %+v, %v", answer, err)
	}
}

func TestAskTriesTheOtherPathWhereTheFirstIsNotFound(t *testing.T) {
	var asked []string
	client, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		if r.URL.Path != "/webapi/find" || r.URL.Query().Get("group") == "none" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, goodBody)
	})
	answer, err := client.Ask(t.Context(), Request{Proxy: server.URL, Host: "0f2c"})
	if answer != goodAnswer || err != nil {
		t.Errorf("got %+v, %v", answer, err)
	}
	if got := strings.Join(asked, " "); got != "/v1/webapi/find?host=0f2c /webapi/find?host=0f2c" {
		t.Errorf("asked %s", got)
	}
	asked = nil
	_, err = client.Ask(t.Context(), Request{Proxy: server.URL, Group: "none"})
	if want := "ask " + server.URL + "/webapi/find: 404 Not Found, and 404 at /v1/webapi/find too"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v; want %s", err, want)
	}
	if len(asked) != 2 {
		t.Errorf("asked %q; want each path once", asked)
	}
}

func TestAskSaysWhatCameBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"500 with a reason", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			io.WriteString(w, "backend\x1b[2J is\ndown")
		}, "the answer is 500 Internal Server Error: “backend [2J is down”"},
		{"503 without a body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
			"the answer is 503 Service Unavailable: no content"},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "204"},
		{"206", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206); io.WriteString(w, goodBody) }, "206"},
		{"a status line for the terminal", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(conn, "HTTP/1.1 500 \x1b[2Jdown\r\nContent-Length: 0\r\n\r\n")
			conn.Close()
		}, "the answer is 500 [2Jdown: no content"},
		{"500 with a good body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); io.WriteString(w, goodBody) }, "500"},
		{"a captive portal", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "\n<!DOCTYPE html><html><title>Welcome to Hotel WiFi</title>")
		}, "captive portal, or a login page?) “<!DOCTYPE html><html><title>Welcome to Hotel WiFi</title>”"},
		{"a redirect to a login page", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/login" {
				http.Redirect(w, r, "/login?token=secret", http.StatusFound)
				return
			}
			io.WriteString(w, "<html>")
		}, "/login): the answer cannot be used"},
		{"a version that is only a v", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"server_edition":"oss","agent_version":"v"}`)
		}, "the version is empty: “{\"server_edition\":\"oss\",\"agent_version\":\"v\"}”"},
		{"a truncated body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, goodBody[:20])
		}, "broke off after 20 bytes: the connection was cut"},
		{"a whole body, but the connection cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, goodBody)
		}, "broke off after"},
		{"a connection cut before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "/v1/webapi/find: the server closed the connection without an answer"},
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			for block := []byte(strings.Repeat("x", 4096)); r.Context().Err() == nil; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "larger than 1048576 bytes: “xxx"},
		{"more than a mebibyte after the object", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, goodBody+strings.Repeat(" ", maxBody))
		}, "larger than 1048576 bytes"},
		{"a redirect to plain http", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/?token=secret", http.StatusFound)
		}, "refused a redirect from https to http://192.0.2.1/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, server := serve(t, tc.answer)
			answer, err := client.Ask(t.Context(), Request{Proxy: server.URL, Host: "0f2c-host"})
			if err == nil {
				t.Fatalf("got %+v", answer)
			}
			if answer != (Answer{}) {
				t.Errorf("an answer beside the error: %+v", answer)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if !strings.HasPrefix(err.Error(), "ask "+server.URL+"/v1/webapi/find") {
				t.Errorf("the error does not start with who was asked: %v", err)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "0f2c-host") || len(err.Error()) > 600 {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
}

func TestAskUnreachable(t *testing.T) {
	client, _ := serve(t, http.NotFound)
	_, err := client.Ask(t.Context(), Request{Proxy: "https://127.0.0.1:1", Host: "0f2c"})
	want := "ask https://127.0.0.1:1/v1/webapi/find: no connection to 127.0.0.1:1: connection refused"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAskUntrusted(t *testing.T) {
	_, server := serve(t, http.NotFound)
	plain, err := webclient.New(webclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&Client{HTTP: plain}).Ask(t.Context(), Request{Proxy: server.URL})
	if err == nil || !strings.Contains(err.Error(), "unknown authority") || !strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("got %v", err)
	}
}

func TestAskIsBoundedInTime(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"no headers", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"headers and no body", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		{"drop by drop", func(w http.ResponseWriter, r *http.Request) {
			for tick := time.Tick(5 * time.Millisecond); r.Context().Err() == nil; <-tick {
				io.WriteString(w, " ")
				w.(http.Flusher).Flush()
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, server := serve(t, tc.answer)
			client.Timeout = 100 * time.Millisecond
			_, err := client.Ask(t.Context(), Request{Proxy: server.URL})
			want := fmt.Sprintf("ask %s: no complete answer within 100ms", server.URL)
			if err == nil || err.Error() != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestAskStopsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := client.Ask(ctx, Request{Proxy: server.URL}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAskRefusesAWrongProxyBeforeAnyRequest(t *testing.T) {
	client := &Client{} // without HTTP: a request would panic
	if _, err := client.Ask(t.Context(), Request{Proxy: "http://proxy.example"}); err == nil {
		t.Error("no error")
	}
}

// serve starts a TLS server, and returns a client that trusts it through a CA
// file as an operator would give.
func serve(t *testing.T, handler http.HandlerFunc) (*Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, data, 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := webclient.New(webclient.Options{CAFile: caFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &Client{HTTP: client}, server
}
