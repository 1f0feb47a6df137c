package parts

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"teleport-update/internal/console"
)

// LogAccess writes one line for each request when the log takes lines of that level.
func LogAccess(next http.Handler, log *slog.Logger, level slog.Level) http.Handler {
	return logAccess(next, log, level, nil)
}

// SampleAccess writes a line of the level info for each request, up to MaxAccessLines a
// second. Of more it writes a sample: a line says how many were left out since the one before.
func SampleAccess(next http.Handler, log *slog.Logger) http.Handler {
	return logAccess(next, log, slog.LevelInfo, &sampler{now: time.Now})
}

// logAccess writes a line for each request that the sampler takes; nil takes all.
func logAccess(next http.Handler, log *slog.Logger, level slog.Level, sample *sampler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !log.Enabled(context.Background(), level) {
			next.ServeHTTP(w, r)
			return
		}
		var leftOut []any
		if sample != nil {
			n, taken := sample.take()
			if !taken {
				next.ServeHTTP(w, r)
				return
			}
			if n > 0 {
				leftOut = []any{"left_out", n}
			}
		}
		start := time.Now()
		counted := &countingWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			attributes := []any{
				"method", console.Excerpt(r.Method, rareValue), "path", console.Excerpt(r.URL.Path, rareValue),
				"query", console.Excerpt(r.URL.RawQuery, rareValue), "range", console.Excerpt(r.Header.Get("Range"), rareValue),
				"status", counted.status, "bytes", counted.bytes, "took", time.Since(start).Round(time.Microsecond), "from", r.RemoteAddr,
			}
			log.Log(context.Background(), level, "request", append(attributes, leftOut...)...)
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
