package inventory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
)

const (
	// reportsAtOnce bounds how many reports with a complete body are processed at once. Further ones come
	// again with the next poll.
	reportsAtOnce = 1024
	// retryAfter is how many seconds a refused host shall wait.
	retryAfter = "60"
	// usualReport is how many bytes are allocated at first for a report.
	usualReport = 1 << 10
	// refusedEvery is the least time between two lines in the log about refused reports.
	refusedEvery = time.Minute
)

// Reports takes reports and joins of hosts.
type Reports struct {
	fleet *Fleet
	log   *slog.Logger
	room  chan struct{}

	arriving arriving
	mu       sync.Mutex
	refused  int       // since logged
	logged   time.Time // the last such line in the log
}

// NewReports returns a Reports for a fleet.
func NewReports(f *Fleet, log *slog.Logger) *Reports {
	return &Reports{fleet: f, log: log, room: make(chan struct{}, reportsAtOnce)}
}

// Join answers a find.Join.
func (s *Reports) Join(w http.ResponseWriter, r *http.Request) {
	s.take(w, r, func(ctx context.Context, secret string, body []byte) error {
		var j joinRequest
		if err := rollout.DecodeJSON(body, &j); err != nil {
			return &bodyError{err}
		}
		b := rollout.Heartbeat{HostID: j.HostID, Group: j.Group, Hostname: j.Hostname}
		if err := checkHeartbeat(&b); err != nil {
			return &bodyError{err}
		}
		// A half of zeros stands for a revoked secret.
		if len(j.SecretHash) != 64 || strings.Trim(j.SecretHash, "0123456789abcdef") != "" || strings.Trim(j.SecretHash[:32], "0") == "" {
			return &bodyError{errors.New("secret_sha256: it is not the SHA-256 of a secret in hex")}
		}
		return s.fleet.join(ctx, secret, j)
	})
}

// Heartbeat answers a find.Heartbeat.
func (s *Reports) Heartbeat(w http.ResponseWriter, r *http.Request) {
	s.take(w, r, func(ctx context.Context, secret string, body []byte) error {
		b, err := parseHeartbeat(body)
		if err == nil {
			err = checkHeartbeat(&b)
		}
		if err == nil && (b.Sequence < 1 || b.Sequence > 1<<32-1) {
			err = fmt.Errorf("sequence: %d is not from 1 to %d", b.Sequence, uint32(1<<32-1))
		}
		if err != nil {
			return &bodyError{err}
		}
		return s.fleet.Report(ctx, secret, b)
	})
}

// checkHeartbeat is stricter than a Fleet needs.
func checkHeartbeat(b *rollout.Heartbeat) error {
	if err := b.Check(); err != nil {
		return err
	}
	if _, ok := rollout.ParseUUID(b.HostID); !ok {
		return errors.New("host_id: it is not a UUID")
	}
	if _, ok := rollout.ParseUUID(b.UpdaterID); !ok && b.UpdaterID != "" {
		return errors.New("updater_id: it is not a UUID")
	}
	for _, v := range []rollout.Semver{b.Version, b.Told} {
		if len(v) > maxVersion {
			return fmt.Errorf("a version is longer than %d bytes", maxVersion)
		}
	}
	if o := b.Outcome; o != nil {
		if len(o.Target) > maxVersion {
			return fmt.Errorf("outcome.target: it is longer than %d bytes", maxVersion)
		}
		if year := o.Time.UTC().Year(); year < 1971 || year > 2200 {
			return fmt.Errorf("outcome.time: %d cannot be the year of an update", year)
		}
	}
	return nil
}

const maxVersion = 100

// bodyError is an error in the body of a request.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }

// take reads a request and answers with the result.
func (s *Reports) take(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, secret string, body []byte) error) {
	arrived := s.arriving.begin(w, r.RemoteAddr)
	defer arrived()
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || len(secret) < 16 || len(secret) > 200 || len(r.Header.Values("Authorization")) != 1 {
		s.refuse(w, r, http.StatusUnauthorized, find.HeartbeatError{Error: "the header Authorization is missing, or is not one " +
			"Bearer and a secret"})
		return
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		s.refuse(w, r, http.StatusUnsupportedMediaType, find.HeartbeatError{Error: "the body is not application/json"})
		return
	}
	var whole bytes.Buffer
	whole.Grow(bytes.MinRead + int(min(max(r.ContentLength, 0), usualReport)))
	_, err := whole.ReadFrom(http.MaxBytesReader(w, r.Body, find.MaxHeartbeat))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.refuse(w, r, http.StatusRequestEntityTooLarge, find.HeartbeatError{Error: fmt.Sprintf("the body is larger than %d bytes",
			find.MaxHeartbeat)})
		return
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, find.HeartbeatError{Error: "the body could not be read"})
		return
	}
	arrived()
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		s.refuse(w, r, http.StatusServiceUnavailable, find.HeartbeatError{
			Error: "too many hosts report at once: nothing was changed; report again later",
		})
		return
	}
	err = do(r.Context(), secret, whole.Bytes())
	if err == nil {
		w.Header()["Content-Type"] = parts.JsonType
		io.WriteString(w, "{}\n")
		return
	}
	said := find.HeartbeatError{Error: err.Error()}
	if late, ok := errors.AsType[*SequenceError](err); ok {
		said.Sequence = late.Last
	}
	s.refuse(w, r, statusOf(err), said)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// statusOf returns the status for an error of a join or a report. Any other error comes
// from the store.
func statusOf(err error) int {
	_, body := errors.AsType[*bodyError](err)
	_, scope := errors.AsType[*ScopeError](err)
	_, late := errors.AsType[*SequenceError](err)
	_, full := errors.AsType[*FullError](err)
	switch {
	case body:
		return http.StatusBadRequest
	case errors.Is(err, ErrToken), errors.Is(err, ErrSecret):
		return http.StatusUnauthorized
	case scope, full:
		return http.StatusForbidden
	case errors.Is(err, ErrKnown), late:
		return http.StatusConflict
	case errors.Is(err, errBurst), errors.Is(err, errJoins):
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

func (s *Reports) refuse(w http.ResponseWriter, r *http.Request, status int, said find.HeartbeatError) {
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", retryAfter)
	}
	s.mu.Lock()
	s.refused++
	count, log := s.refused, time.Since(s.logged) >= refusedEvery
	if log {
		s.refused, s.logged = 0, time.Now()
	}
	s.mu.Unlock()
	if log {
		s.log.Warn("reports of hosts are refused", "count", count, "last_status", status, "last_error", said.Error, "last_from", r.RemoteAddr)
	}
	parts.Reply(w, status, said)
}
