// Package server is the other side of find: the HTTP server that tells hosts which
// version to run, and can serve the releases.
//
// The find endpoint answers from memory. Answers come from an Answerer, which must not
// block: a million hosts ask every ten minutes, most of them in the same minute. The
// bytes of each different answer are built once.
//
//	GET /v1/webapi/find, /webapi/find   the answer (parameters group, host, update_id)
//	GET /v1/CHANNEL/version, critical   the same for updaters of RFD 0109, also below
//	                                    /v1/webapi/automaticupgrades/channel/; see Channels
//	GET /v1/webapi/maintenance          the window of a group (parameter group) for a systemd timer
//	GET /releases/NAME                  a tarball, or its NAME.sha256
//	GET /packages/NAME                  a package of the updater, or SHA256SUMS, the list of them
//	GET /scripts/install.sh             a script that installs the updater on a host
//	POST /v1/agents/join                a host joins, see find.Join
//	POST /v1/agents/heartbeat           a host reports, see find.Heartbeat
//	GET /healthz                        200 while hosts are answered; with "blocked" in a second line if no rollout moves
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
	"teleport-update/find/server/channels"
	"teleport-update/find/server/files"
	"teleport-update/find/server/inventory"
	"teleport-update/find/server/parts"
)

// Answerer decides on the answers of find. group and host come from the host, and may
// be empty or anything at all. The answer must pass its Check.
type Answerer interface {
	Answer(group, host string) find.Answer
}

// QueryAnswerer is an Answerer whose answers depend on all parameters of a host, and on the
// time. Only AnswerAt is called, with the time of its own clock.
type QueryAnswerer interface {
	Answerer
	AnswerAt(rollout.Query, time.Time) find.Answer
	Now() time.Time
}

// InstallScriptPath is the address of the install script.
const InstallScriptPath = "/scripts/install.sh"

// Options are the parts of a server.
type Options struct {
	Answers  Answerer
	Releases *files.Releases // nil: no releases are served
	Packages *files.Packages // nil: no packages are served
	// InstallScript is the script to serve; may be nil.
	InstallScript []byte
	// Channels answers updaters of RFD 0109; may be nil.
	Channels *channels.Channels
	// ReleaseTemplate is in each answer, see find.Answer; it may be empty. It must pass the Check of
	// an answer.
	ReleaseTemplate string
	// Fleet takes the reports of hosts; may be nil.
	Fleet *inventory.Fleet
	// Blocked says what keeps the server from moving the rollout; may be nil.
	Blocked func() []string
	// AccessLog logs each request, or a sample of them if there are many.
	AccessLog bool
	Log       *slog.Logger
}

// New returns the handler of the whole server.
func New(opts Options) http.Handler {
	h := &handler{log: opts.Log, now: time.Now, answer: func(q rollout.Query,
		_ time.Time) find.Answer {
		return opts.Answers.Answer(q.Group, q.Host)
	}}
	h.bodies.template = opts.ReleaseTemplate
	if answers, ok := opts.Answers.(QueryAnswerer); ok {
		h.now, h.answer = answers.Now, answers.AnswerAt
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/webapi/find", h.find)
	mux.HandleFunc("GET /webapi/find", h.find)
	health := func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
		if opts.Blocked != nil && len(opts.Blocked()) > 0 {
			io.WriteString(w, "blocked\n") // the reason is for the server's operators: "status" and /readyz show it
		}
	}
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("OPTIONS /healthz", health)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions { // HAProxy's check, unless configured otherwise
			http.NotFound(w, r)
			return
		}
		health(w, r)
	})
	if opts.Releases != nil {
		mux.Handle("GET "+files.ReleasesPath+"{name}", opts.Releases)
	}
	if opts.Packages != nil {
		mux.Handle("GET "+files.PackagesPath+"{name}", opts.Packages)
	}
	if opts.Channels != nil {
		opts.Channels.Register(mux)
	}
	if opts.InstallScript != nil {
		mux.HandleFunc("GET "+InstallScriptPath, func(w http.ResponseWriter, _ *http.Request) {
			header := w.Header()
			header["Content-Type"] = parts.PlainText
			header["Cache-Control"] = parts.NoStore
			w.Write(opts.InstallScript)
		})
	}
	if opts.Fleet != nil {
		h.reports = inventory.NewReports(opts.Fleet, opts.Log)
	}
	all := h.first(parts.LimitBody(mux))
	// To debug a server, people want to see each request.
	if opts.AccessLog && !opts.Log.Enabled(context.Background(), slog.LevelDebug) {
		return parts.SampleAccess(all, opts.Log)
	}
	return parts.LogAccess(all, opts.Log, slog.LevelDebug)
}

type handler struct {
	now     func() time.Time
	answer  func(rollout.Query, time.Time) find.Answer
	bodies  bodies
	log     *slog.Logger
	reports *inventory.Reports
}

// first answers the questions of hosts, and takes their reports, before anything is
// looked up: nearly all requests are these.
func (h *handler) first(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; (path == "/v1/webapi/find" || path == "/webapi/find") && r.Method == http.MethodGet && r.ContentLength == 0 {
			h.find(w, r)
			return
		}
		if h.reports != nil && r.Method == http.MethodPost {
			switch r.URL.Path {
			case find.JoinPath:
				h.reports.Join(w, r)
				return
			case find.HeartbeatPath:
				h.reports.Heartbeat(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (h *handler) find(w http.ResponseWriter, r *http.Request) {
	query := parseQuery(r.URL.RawQuery)
	now := h.now() // once: getting the time takes longer than finding the answer
	answer := h.answer(query, now)
	body, err := h.bodies.get(answer)
	if err != nil {
		h.log.Error("an answer cannot be served", "answer", answer, "error", err)
		http.Error(w, "there is no answer to give", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header["Content-Type"] = parts.JsonType
	header["Cache-Control"] = parts.NoStore
	w.Write(body)
}

// parseQuery takes the first value of each name, and an empty text for a malformed one.
// url.ParseQuery would build a map of everything sent.
func parseQuery(query string) (q rollout.Query) {
	var seen [3]bool
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		switch name {
		case "group":
			take(&q.Group, &seen[0], value)
		case "host":
			take(&q.Host, &seen[1], value)
		case "update_id":
			take(&q.UpdaterID, &seen[2], value)
		}
	}
	return q
}

func take(into *string, seen *bool, value string) {
	if *seen {
		return
	}
	*seen = true
	if strings.IndexByte(value, '%') >= 0 || strings.IndexByte(value, '+') >= 0 { // far faster than ContainsAny
		value, _ = url.QueryUnescape(value)
	}
	*into = value
}
