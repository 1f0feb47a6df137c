package parts

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestNobodyFillsTheLog(t *testing.T) {
	var out strings.Builder
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	log := slog.New(&rare{Handler: slog.NewTextHandler(&out, nil), state: new(rareState), now: func() time.Time { return now }})
	for range 5000 {
		log.Warn("a release cannot be read "+strings.Repeat("m", 5000), "name", strings.Repeat("x", 5000), "error", strings.Repeat("e", 5000))
	}
	if lines, size := strings.Count(out.String(), "\n"), out.Len(); lines != 1 || size > 1000 {
		t.Errorf("5,000 requests in a second wrote %d lines, %d bytes", lines, size)
	}
	now = now.Add(rareEvery)
	log.Warn("the next one")
	if !strings.Contains(out.String(), `"the next one" left_out=4999`) {
		t.Errorf("the log does not say how many lines it left out:\n%s", out.String())
	}
	now = now.Add(-time.Hour)
	log.Warn("after the clock was set back")
	if !strings.Contains(out.String(), "after the clock was set back") {
		t.Error("a clock that was set back silences the log")
	}
}

// A balancer that opens the port each second and closes it writes nothing; a host that does not trust the certificate does.
func TestProbesOfAPortAreNotInTheLog(t *testing.T) {
	var out strings.Builder
	errors := ErrorLog(slog.New(slog.NewTextHandler(&out, nil)), slog.LevelInfo)
	for _, probe := range []string{"EOF", "read tcp 192.0.2.1:3443->192.0.2.2:50000: read: connection reset by peer"} {
		errors.Printf("http: TLS handshake error from 192.0.2.2:50000: %s", probe)
	}
	if out.Len() > 0 {
		t.Errorf("probes wrote\n%s", out.String())
	}
	errors.Printf("http: TLS handshake error from 192.0.2.2:50000: remote error: tls: bad certificate")
	if !strings.Contains(out.String(), "bad certificate") {
		t.Errorf("a host that does not trust the certificate is not in\n%s", out.String())
	}
}
