// Package server is the other side of find: the HTTP server that tells hosts
// which version to run, and that can serve the releases themselves.
//
// The find endpoint answers from memory. What it says comes from an Answerer,
// which must not block: a million hosts ask every ten minutes, most of them at
// the same minute. The bytes of each different answer are built once.
//
//	GET /v1/webapi/find, /webapi/find   the answer (parameters group, host, update_id)
//	GET /releases/NAME                  a tarball, or its NAME.sha256
//	GET /packages/NAME                  a package of the updater, or SHA256SUMS, the list of them
//	GET /scripts/install.sh             what brings the updater onto a host
//	GET /healthz                        200 while the server runs
package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
)

// Answerer decides what find says to a host. The query is what the host sent, and
// may be empty or anything at all. The answer must pass its Check.
type Answerer interface {
	Answer(rollout.Query) find.Answer
}

// InstallScriptPath is where the install script is served.
const InstallScriptPath = "/scripts/install.sh"

// Options are the parts of a server.
type Options struct {
	Answers  Answerer
	Releases *Releases // nil: no releases are served
	Packages *Packages // nil: no packages are served
	// InstallScript is served as it is; nil: none.
	InstallScript []byte
	Log           *slog.Logger
}

// New returns the handler of the whole server.
func New(opts Options) http.Handler {
	h := &handler{answers: opts.Answers, log: opts.Log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/webapi/find", h.find)
	mux.HandleFunc("GET /webapi/find", h.find)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	if opts.Releases != nil {
		mux.Handle("GET "+ReleasesPath+"{name}", opts.Releases)
	}
	if opts.Packages != nil {
		mux.Handle("GET "+PackagesPath+"{name}", opts.Packages)
	}
	if opts.InstallScript != nil {
		mux.HandleFunc("GET "+InstallScriptPath, func(w http.ResponseWriter, _ *http.Request) {
			header := w.Header()
			header["Content-Type"] = plainText
			header["Cache-Control"] = noStore
			w.Write(opts.InstallScript)
		})
	}
	return logAccess(limitBody(mux), opts.Log)
}

type handler struct {
	answers Answerer
	bodies  bodies
	log     *slog.Logger
}

// Header values shared by all answers; net/http only reads them.
var (
	jsonType  = []string{"application/json"}
	plainText = []string{"text/plain; charset=utf-8"}
	noStore   = []string{"no-store"}
)

func (h *handler) find(w http.ResponseWriter, r *http.Request) {
	query := r.URL.RawQuery
	answer := h.answers.Answer(rollout.Query{Group: param(query, "group"), Host: param(query, "host"), UpdaterID: param(query, "update_id")})
	body, err := h.bodies.get(answer)
	if err != nil {
		h.log.Error("an answer cannot be served", "answer", answer, "err", err)
		http.Error(w, "there is no answer to give", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Cache-Control"] = noStore
	w.Write(body)
}

// param returns the first value of name, or "" when it is not there or not
// well escaped. url.ParseQuery would build a map of everything sent.
func param(query, name string) string {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if value, ok := strings.CutPrefix(pair, name); ok && strings.HasPrefix(value, "=") {
			value = value[1:]
			if strings.ContainsAny(value, "%+") {
				value, _ = url.QueryUnescape(value)
			}
			return value
		}
	}
	return ""
}

// bodyTime is how long a request may take to send a body that nobody reads.
const bodyTime = time.Second

// limitBody keeps a request with a body, which no endpoint takes, from holding
// its connection: net/http would wait for some of it without a limit.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
		next.ServeHTTP(w, r)
	})
}

// logAccess writes one line for each request when the log takes debug lines.
func logAccess(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !log.Enabled(context.Background(), slog.LevelDebug) {
			next.ServeHTTP(w, r)
			return
		}
		start := time.Now()
		counted := &countingWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			log.Debug("request", "method", r.Method, "path", r.URL.Path, "query", r.URL.RawQuery, "range", r.Header.Get("Range"),
				"status", counted.status, "bytes", counted.bytes, "took", time.Since(start).Round(time.Microsecond), "from", r.RemoteAddr)
		}()
		next.ServeHTTP(counted, r)
	})
}

type countingWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom keeps sendfile(2) for downloads.
func (w *countingWriter) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, src)
	w.bytes += n
	return n, err
}
