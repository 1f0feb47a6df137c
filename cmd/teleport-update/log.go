package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"

	"teleport-update/internal/console"
	"teleport-update/internal/failure"
	"teleport-update/internal/journald"
)

type ctx = context.Context

// newLogger writes to stderr: steps for a person at a terminal, if no format is asked for; lines of key=value or JSON for a machine; and
// lines with a priority if systemd's journal reads them. A run whose stderr the journal does not read writes its lines to the journal as
// well, so that one place has the whole history of the host.
func newLogger(stderr *console.Output, terminal *terminal, format string, debug bool) (*slog.Logger, error) {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	toJournal := journald.Reads(stderr.File())
	var h slog.Handler
	switch format {
	case "json":
		h = slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level})
	case "", "text":
		h = &lineHandler{out: (&lineWriter{w: stderr, priorities: toJournal}).line, level: level}
	default:
		return nil, fmt.Errorf("--log-format %q is neither text nor json", format)
	}
	if terminal != nil {
		h = &lineHandler{out: terminal.line, level: level}
	}
	if !toJournal && journal.Enabled() {
		h = slog.NewMultiHandler(h, &lineHandler{out: sendToJournal, level: level})
	}
	return slog.New(h), nil
}

// fail prints the one error that ends a command.
func (a *app) fail(err error) {
	if a.log == nil {
		fmt.Fprintf(a.stderr, "%s: %s\n", appName, console.Line(err.Error()))
		return
	}
	text := err.Error()
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		// Other advice is for root.
		if e, ok := errors.AsType[*failure.Error](err); ok && e.Fix != "" {
			text = strings.Replace(text, ": "+e.Fix, "", 1)
		}
		text += ": run the command as root"
	}
	a.log.Error(text)
}

// lineSink takes the parts of one line.
type lineSink func(level slog.Level, message string, attrs []slog.Attr)

// lineHandler makes one line of a record.
type lineHandler struct {
	out   lineSink
	level slog.Level
	attrs []slog.Attr
}

func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	h.out(r.Level, console.Line(r.Message), attrs)
	return nil
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineHandler{out: h.out, level: h.level, attrs: slices.Concat(h.attrs, attrs)}
}

// WithGroup keeps the names flat: no attribute of ours is grouped.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }

// flat returns the message, then key=value.
func flat(message string, attrs []slog.Attr) string {
	var b strings.Builder
	b.WriteString(message)
	for _, a := range attrs {
		text := valueText(a)
		if text == "" || strings.ContainsAny(text, " =\"") {
			text = fmt.Sprintf("%q", text)
		}
		fmt.Fprintf(&b, " %s=%s", a.Key, text)
	}
	return b.String()
}

func valueText(a slog.Attr) string { return console.Line(fmt.Sprint(a.Value.Resolve().Any())) }

type lineWriter struct {
	mu         sync.Mutex
	w          *console.Output
	priorities bool
}

func (l *lineWriter) line(level slog.Level, message string, attrs []slog.Attr) {
	prefix := mannerOf(level).prefix
	if l.priorities {
		prefix = fmt.Sprintf("<%d>", mannerOf(level).priority)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s%s\n", prefix, flat(message, attrs))
}

func sendToJournal(level slog.Level, message string, attrs []slog.Attr) {
	_ = journal.Send(flat(message, attrs), mannerOf(level).priority, map[string]string{"SYSLOG_IDENTIFIER": appName})
}

// manner is the form of a level's lines: for a pipe, for systemd's journal and for a person.
type manner struct {
	from     slog.Level
	prefix   string
	priority journal.Priority
	mark     mark
}

// manners are all manners, the gravest first.
var manners = []manner{
	{slog.LevelError, "error: ", journal.PriErr, markError},
	{slog.LevelWarn, "warning: ", journal.PriWarning, markWarning},
	{slog.LevelInfo, "", journal.PriInfo, markStep},
	{math.MinInt, "debug: ", journal.PriDebug, markStep},
}

func mannerOf(level slog.Level) manner {
	return manners[slices.IndexFunc(manners, func(m manner) bool { return level >= m.from })]
}
