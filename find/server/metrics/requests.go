package metrics

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"teleport-update/find"
)

// endpoints are identified by prefixes of paths; the first match counts.
var endpoints = []struct{ path, name string }{
	{"/v1/webapi/find", "find"}, {"/webapi/find", "find"}, {find.HeartbeatPath, "report"}, {find.JoinPath, "join"},
	{"/releases/", "releases"}, {"/packages/", "packages"}, {"/scripts/", "scripts"}, {"/healthz", "healthz"},
	{"/apt/", "repository"}, {"/yum/", "repository"}, {"/teleport-update.", "repository"},
	{"/v1/", "channels"}, {"/webapi/", "channels"},
}

const otherEndpoint = "other"

// codes are the status codes of the server's answers; any other code counts as 0.
var codes = []int{200, 206, 301, 304, 400, 401, 403, 404, 405, 408, 409, 413, 415, 416, 429, 500, 501, 502, 503}

// results are the results of reports and joins.
var results = []string{
	"taken", "malformed", "unauthorized", "not_allowed", "out_of_order", "too_large", "too_many", "unavailable", "other",
}

// resultOf returns the result for the status of an answer to a report or a join.
func resultOf(code int) string {
	switch code {
	case http.StatusOK:
		return "taken"
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return "malformed"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "not_allowed"
	case http.StatusConflict:
		return "out_of_order"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusTooManyRequests:
		return "too_many"
	case http.StatusServiceUnavailable:
		return "unavailable"
	}
	return "other"
}

// Count counts the requests to another handler.
func (m *Metrics) Count(next http.Handler) http.Handler {
	// The counters are looked up once: nearly all requests are the same.
	counters := make(map[string][]prometheus.Counter)
	count := func(endpoint string) {
		for _, code := range append(codes, 0) {
			counters[endpoint] = append(counters[endpoint], m.requests.WithLabelValues(endpoint, strconv.Itoa(code)))
		}
	}
	for _, e := range endpoints {
		if counters[e.name] == nil {
			count(e.name)
		}
	}
	count(otherEndpoint)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered := &statusWriter{ResponseWriter: w, code: http.StatusOK}
		defer func() {
			endpoint := endpointOf(r.URL.Path)
			at := slices.Index(codes, answered.code)
			if at < 0 {
				at = len(codes)
			}
			counters[endpoint][at].Inc()
			if endpoint == "report" || endpoint == "join" {
				m.reports.WithLabelValues(resultOf(answered.code)).Inc()
			}
		}()
		next.ServeHTTP(answered, r)
	})
}

func endpointOf(path string) string {
	for _, e := range endpoints {
		if strings.HasPrefix(path, e.path) {
			return e.name
		}
	}
	return otherEndpoint
}

// statusWriter remembers the status code of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (a *statusWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *statusWriter) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// ReadFrom keeps sendfile(2) for downloads.
func (a *statusWriter) ReadFrom(src io.Reader) (int64, error) { return io.Copy(a.ResponseWriter, src) }
