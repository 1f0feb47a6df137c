//go:build hosts

package hostile

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"
)

// origin is a world's TLS server: find and a mirror in one.
type origin struct {
	answer   string // of find
	tarball  []byte
	checksum string // content of the checksum file; "" for the tarball's own

	find  http.HandlerFunc // instead of answer
	files http.HandlerFunc // instead of tarball and checksum
	tls   func(*tls.Config)
	wrap  func(net.Listener) net.Listener

	requests atomic.Int64
	server   *httptest.Server
}

func newOrigin() *origin {
	return &origin{answer: answerFor("1.1.0")}
}

func answerFor(v string) string {
	return fmt.Sprintf(`{"server_edition":"oss","agent_version":%q,"agent_autoupdate":true,"agent_update_jitter_seconds":0}`, v)
}

// Every secret has this word in it.
const planted = "planted"

const mirrorPath = "/planted-no-secret/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz"

// start begins to listen; what is not set yet for the configuration is then.
func (w *world) serve() {
	o := w.origin
	o.server = httptest.NewUnstartedServer(o)
	o.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	o.server.TLS = &tls.Config{Certificates: []tls.Certificate{fixture.server.good}}
	if o.tls != nil {
		o.tls(o.server.TLS)
	}
	if o.wrap != nil {
		o.server.Listener = o.wrap(o.server.Listener)
	}
	o.server.StartTLS()
	if w.proxy == "" {
		w.proxy = "https://" + w.address()
	}
	if len(w.templates) == 0 {
		w.templates = []string{w.template(mirrorPath)}
	}
}

func (o *origin) address() string { return o.server.Listener.Addr().String() }

// template is a URL template of this server's with secrets in it.
func (o *origin) template(path string) string {
	return "https://ann:planted-user@" + o.address() + path + "?token=planted-token"
}

func (o *origin) stop() {
	if o.server != nil {
		o.server.CloseClientConnections()
		go o.server.Close() // handlers that stall are told by their context
	}
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.requests.Add(1)
	isFind := strings.HasSuffix(r.URL.Path, "/webapi/find")
	switch {
	case isFind && o.find != nil:
		o.find(w, r)
	case isFind:
		io.WriteString(w, o.answer)
	case o.files != nil:
		o.files(w, r)
	default:
		o.serveFiles(w, r)
	}
}

func isChecksum(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".sha256") }

func (o *origin) serveFiles(w http.ResponseWriter, r *http.Request) {
	if isChecksum(r) {
		if o.checksum != "" {
			io.WriteString(w, o.checksum)
			return
		}
		fmt.Fprintf(w, "%x  teleport.tar.gz\n", sha256.Sum256(o.tarball))
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(o.tarball)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.tarball))
}
