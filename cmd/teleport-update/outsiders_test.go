package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/console/consoletest"
)

// outsider is a host in a folder and the words of whoever wants to drive its terminal.
type outsider struct {
	t      *testing.T
	dir    string
	word   string
	spec   map[string]any // of updates.yaml
	status map[string]any
}

func (o *outsider) path(parts ...string) string {
	return filepath.Join(append([]string{o.dir}, parts...)...)
}

func (o *outsider) write(text []byte, parts ...string) {
	path := o.path(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		o.t.Fatal(err)
	}
}

func (o *outsider) writeYAML(value any, parts ...string) {
	data, err := yaml.Marshal(value)
	if err != nil {
		o.t.Fatal(err)
	}
	o.write(data, parts...)
}

func (o *outsider) writeJSON(value any, parts ...string) {
	data, err := json.Marshal(value)
	if err != nil {
		o.t.Fatal(err)
	}
	o.write(data, parts...)
}

// answers has a server send the same bytes to whoever asks, and the host ask it.
func (o *outsider) answers(response string) {
	o.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { l.Close() })
	go serve(l, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, response)
	})
	o.spec["proxy"] = "http://" + l.Addr().String()
}

// shows has a server show a certificate that nobody vouches for, with the word as its name.
func (o *outsider) shows() {
	o.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		o.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: strings.ToValidUTF8(o.word, "?")}}
	if !strings.ContainsFunc(o.word, func(r rune) bool { return r > '~' }) { // what is another string is no name
		template.DNSNames = []string{o.word}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		o.t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { l.Close() })
	go serve(l, func(c net.Conn) { _ = c.(*tls.Conn).Handshake() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	o.spec["proxy"] = "localhost:" + port
}

func serve(l net.Listener, each func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			each(c)
		}()
	}
}

// oneHeader is the word as far as it fits into a line of a header.
func (o *outsider) oneHeader() string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(head(o.word, 8000))
}

func head(s string, limit int) string { return s[:min(len(s), limit)] }

// ways are those by which words of others come to this program. Those of files of root's alone are
// among them: errors of others stand in them.
var ways = map[string]func(*outsider){
	"a certificate that nobody vouches for": (*outsider).shows,
	"the words behind a status code":        func(o *outsider) { o.answers("HTTP/1.1 503 " + o.oneHeader() + "\r\nContent-Length: 0\r\n\r\n") },
	"the page of an error": func(o *outsider) {
		o.answers(fmt.Sprintf("HTTP/1.1 500 Error\r\nContent-Length: %d\r\n\r\n%s", len(o.word), o.word))
	},
	"an answer that is none": func(o *outsider) {
		o.answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(o.word), o.word))
	},
	"the first line of an answer": func(o *outsider) { o.answers(o.word + "\r\n\r\n") },
	"where a server redirects": func(o *outsider) {
		o.answers("HTTP/1.1 302 Found\r\nLocation: " + o.oneHeader() + "\r\nContent-Length: 0\r\n\r\n")
	},
	"a version of find's": func(o *outsider) {
		body, _ := json.Marshal(map[string]any{"server_edition": "oss", "agent_version": o.word, "agent_autoupdate": true})
		o.answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	},
	"the agent's group":       func(o *outsider) { o.agent("upgrade_group") },
	"the agent's data folder": func(o *outsider) { o.agent("data_dir") },
	"the agent's proxy":       func(o *outsider) { delete(o.spec, "proxy"); o.agent("proxy_server") },
	"teleport.yaml, damaged":  func(o *outsider) { o.write([]byte("teleport: {"+o.word), "teleport.yaml") },
	"the group":               func(o *outsider) { o.spec["group"] = o.word },
	"the proxy":               func(o *outsider) { o.spec["proxy"] = o.word },
	"a template": func(o *outsider) {
		o.spec["url_templates"] = []string{"file:///none/" + o.word + "{{.Version}}"}
	},
	"the last error": func(o *outsider) {
		o.status["last_update"] = map[string]any{"time": time.Now(), "target": "1.2.0", "result": "failed", "error": o.word}
	},
	"the error of a version that failed": func(o *outsider) {
		o.status["failed"] = map[string]any{"version": "1.2.0", "edition": "oss", "attempts": 2, "next_attempt": time.Now().Add(time.Hour), "error": o.word}
	},
	"the history": func(o *outsider) {
		o.writeJSON(map[string]any{"switches": []any{map[string]any{"time": time.Now(), "cause": o.word, "by": o.word, "to": map[string]any{"version": "1.1.0", "edition": "oss"},
			"result": o.word, "error": o.word}}}, "data", "versions", "history.json")
	},
	"the last answer": func(o *outsider) {
		o.writeJSON(map[string]any{"proxy": o.spec["proxy"], "error": o.word, "group": o.word, "version": o.word, "edition": o.word, "time": time.Now()}, "data", "versions", "find.json")
	},
	"the journal": func(o *outsider) {
		o.writeJSON(map[string]any{"schema": 1, "readable_from": 1, "writer": o.word, "phase": o.word, "kind": o.word, "to": o.word}, "data", "versions", "journal.json")
	},
	"a journal that is none": func(o *outsider) { o.write([]byte(o.word), "data", "versions", "journal.json") },
	"a name in the store": func(o *outsider) {
		_ = os.MkdirAll(o.path("data", "versions", strings.NewReplacer("/", "", "\x00", "").Replace(head(o.word, 60))), 0o755)
	},
	"who gives a command": func(o *outsider) { o.t.Setenv("SUDO_USER", strings.ReplaceAll(o.word, "\x00", "")) },
	"a word at the command line": func(o *outsider) { // of a script that was given it
		o.word = strings.ReplaceAll(o.word, "\x00", "")
	},
}

// rootsFiles are ways whose length root decides.
var rootsFiles = []string{"the group", "the proxy", "a template", "the last error", "the error of a version that failed", "the history", "the last answer", "the journal",
	"a word at the command line", "who gives a command"}

func (o *outsider) agent(setting string) {
	o.writeYAML(map[string]any{"teleport": map[string]any{setting: o.word}}, "teleport.yaml")
}

// commands are asked in each state of the host: the ones that look first.
var lookers = [][]string{
	{"status", "--format", "text"}, {"status", "--format", "json"}, {"status", "--format", "openmetrics"}, {"history", "--format", "text"}, {"history", "--format", "json"},
	{"verify"}, {"update", "--now"}, {"--log-format", "json", "update", "--dry-run"}, {"--log-format", "text", "update"}, {"rollback", "--dry-run"}, {"uninstall", "--dry-run"},
	{"status", "--format", "text", "--offline"}, {"status", "--format", "json", "--offline"}, {"history"},
}

// Every kind of word, by every way, in front of every command that shows it, on a terminal: it is sent
// nothing but printable text. JSON stays JSON.
func TestWordsOfOthersDriveNoTerminal(t *testing.T) {
	some := []string{"C0", "C1 in one byte", "lines"} // with -short, one for each way
	for n, way := range slices.Sorted(maps.Keys(ways)) {
		t.Run(way, func(t *testing.T) {
			for _, kind := range slices.Sorted(maps.Keys(consoletest.Words())) {
				if kind == "no end" && slices.Contains(rootsFiles, way) {
					continue
				}
				if testing.Short() && kind != some[n%len(some)] {
					continue
				}
				o := newOutsider(t, kind, way)
				commands := lookers
				if way == "a word at the command line" {
					commands = [][]string{{o.word}, {"update", "--" + o.word}, {"pin", o.word}, {"status", "--format", o.word}, {"help", o.word}, {"--log-format", o.word, "status"}}
				}
				for _, dumb := range []bool{true, false} {
					t.Setenv("TERM", map[bool]string{true: "dumb", false: "xterm"}[dumb])
					slave, shown := consoletest.Terminal(t, 120)
					for _, command := range commands {
						run(t.Context(), o.args(command), slave, slave)
					}
					if err := consoletest.Check(shown(), dumb); err != nil {
						t.Errorf("%s: %v", kind, err)
					}
					commands = commands[:min(len(commands), 3)]
				}
				for _, command := range [][]string{{"status"}, {"history"}} {
					var out bytes.Buffer
					run(t.Context(), o.args(command), &out, io.Discard)
					if !json.Valid(out.Bytes()) {
						t.Errorf("%s: %s prints no JSON: %.300q", kind, command, out.String())
					}
				}
			}
		})
	}
}

func newOutsider(t *testing.T, kind, way string) *outsider {
	o := &outsider{t: t, dir: t.TempDir(), word: consoletest.Words()[kind],
		spec: map[string]any{"proxy": "127.0.0.1:1", "enabled": true, "active_version": "1.1.0",
			"url_templates": []string{"file:///none/{{.Version}}.tar.gz"}}, // nothing is waited for
		status: map[string]any{"active_edition": "oss"}}
	o.write(nil, "bin", ".keep")
	ways[way](o)
	o.writeYAML(map[string]any{"version": "v1", "kind": "agent_versions", "spec": o.spec, "status": o.status}, "data", "versions", "updates.yaml")
	return o
}

func (o *outsider) args(command []string) []string {
	return append([]string{appName, "--data-dir", o.path("data"), "--link-dir", o.path("bin"), "--unit-dir", o.path("units"), "--agent-config", o.path("teleport.yaml")}, command...)
}
