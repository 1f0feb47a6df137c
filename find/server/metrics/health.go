package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// maxQuiet is how long a loop may take for one tick: the engine looks every ten
	// seconds, and an operation on the store ends after five.
	maxQuiet = time.Minute
	// maxAge is how old the answers may be: a short outage of the store is nobody's
	// concern.
	maxAge = time.Minute
)

// part is a part of a server, and why it does not work.
type part struct {
	name string
	err  error
}

// Live reports why the process should be restarted: one of its loops hangs. An outage
// of the store is no reason, since a new process would not have the store either.
func (m *Metrics) Live() error {
	var all []error
	for _, p := range m.live() {
		if p.err != nil {
			all = append(all, fmt.Errorf("%s: %w", p.name, p.err))
		}
	}
	return errors.Join(all...)
}

func (m *Metrics) live() (parts []part) {
	for _, loop := range []struct {
		name  string
		pulse *Pulse
	}{{"engine", &m.engine}, {"reports", &m.kept}} {
		quiet, there := loop.pulse.quiet()
		if !there {
			continue
		}
		p := part{name: loop.name}
		if quiet > maxQuiet {
			p.err = fmt.Errorf("it has done nothing for %s", quiet.Round(time.Second))
		}
		parts = append(parts, p)
	}
	if parts == nil {
		parts = []part{{name: "server"}}
	}
	return parts
}

// ready returns each part, with the reason if it does not work.
func (m *Metrics) ready() (parts []part) {
	if m.sources.Store != nil {
		parts = append(parts, part{name: "store", err: m.sources.Store()})
	}
	if m.sources.Snapshot != nil {
		p := part{name: "snapshot"}
		age, err := m.sources.Snapshot()
		if age > maxAge {
			p.err = fmt.Errorf("the answers are %s old: %w", age.Round(time.Second), reason(err))
		}
		parts = append(parts, p)
	}
	if m.sources.Engine != nil {
		p := part{name: "tick"}
		e := m.sources.Engine()
		last := e.LastTick
		if last.IsZero() {
			last = m.began
		}
		if away := m.opts.Clock().Sub(last); away > maxQuiet {
			p.err = fmt.Errorf("the rollout was not looked at for %s: %w", away.Round(time.Second), reason(e.Err))
		}
		parts = append(parts, p)
	}
	if m.sources.Reports != nil {
		parts = append(parts, part{name: "inventory", err: m.sources.Reports()})
	}
	if m.sources.Resting != nil {
		parts = append(parts, part{name: "answers", err: m.sources.Resting()})
	}
	return append(parts, m.live()...)
}

var errNoReason = errors.New("no error is known, see the log")

func reason(err error) error {
	if err == nil {
		return errNoReason
	}
	return err
}

// writeHealth answers 200 if all parts work, and 503 if not.
func writeHealth(w http.ResponseWriter, parts []part) {
	var b strings.Builder
	code := http.StatusOK
	for _, p := range parts {
		said := "ok"
		if p.err != nil {
			said = strings.Join(strings.Fields(p.err.Error()), " ")
			code = http.StatusServiceUnavailable
		}
		fmt.Fprintf(&b, "%s: %s\n", p.name, said)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	w.Write([]byte(b.String()))
}
