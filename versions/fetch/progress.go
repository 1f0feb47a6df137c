package fetch

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"teleport-update/internal/space"
)

// Progress shows how a download goes. Its methods are called in this order and never at the same
// time.
type Progress interface {
	// Start begins a download with the name what.
	Start(what string)
	// Update gets the number of bytes that are here, and the tarball's length (-1 if unknown). It is
	// first called for bytes that an earlier run did not keep. It is called often and must be quick.
	Update(done, total int64)
	// End ends the download after success or failure.
	End()
}

// rate measures bytes per second over the last seconds. Bytes from before its start do not count.
type rate struct {
	lastTime  time.Time
	lastBytes int64
	smooth    float64 // bytes per second
}

func (r *rate) update(now time.Time, done int64) {
	if r.lastTime.IsZero() || done < r.lastBytes { // begun, or begun again at another mirror
		r.lastTime, r.lastBytes = now, done
		return
	}
	elapsed := now.Sub(r.lastTime).Seconds()
	if elapsed < 0.1 {
		return
	}
	current := float64(done-r.lastBytes) / elapsed
	if r.smooth == 0 {
		r.smooth = current
	}
	// A weight that forgets within about five seconds, independent of how often this runs.
	weight := min(elapsed/5, 1)
	r.smooth += weight * (current - r.smooth)
	r.lastTime, r.lastBytes = now, done
}

// left returns how long the rest will take, empty if unknown.
func (r *rate) left(done, total int64) string {
	if total < done || r.smooth < 1 {
		return ""
	}
	rest := time.Duration(float64(total-done) / r.smooth * float64(time.Second))
	if rest > 99*time.Hour {
		return ""
	}
	return rest.Round(time.Second).String()
}

// bar draws one line on a terminal.
type bar struct {
	out Screen
	now func() time.Time

	what        string
	rate        rate
	drawn       time.Time
	done, total int64
}

// Screen is a terminal on which a line can be drawn again.
type Screen interface {
	Draw(line string) // the next line replaces it
	Keep(line string) // the next line begins below it
	Width() int       // in characters
}

// NewBar returns a progress bar for a terminal.
func NewBar(terminal Screen) Progress {
	return &bar{out: terminal, now: time.Now}
}

func (b *bar) Start(what string) {
	*b = bar{out: b.out, now: b.now, what: what, total: -1}
}

func (b *bar) Update(done, total int64) {
	now := b.now()
	b.rate.update(now, done)
	b.done, b.total = done, total
	if now.Sub(b.drawn) < 100*time.Millisecond {
		return
	}
	b.drawn = now
	b.out.Draw(b.line())
}

func (b *bar) End() {
	if !b.drawn.IsZero() {
		b.out.Keep(b.line())
	}
}

// line is always narrower than the terminal, so that it does not wrap.
func (b *bar) line() string {
	numbers := space.Format(b.done)
	if b.total > 0 {
		numbers = fmt.Sprintf("%3d%% of %s", 100*b.done/b.total, space.Format(b.total))
	}
	numbers += fmt.Sprintf("  %s/s", space.Format(int64(b.rate.smooth)))
	if left := b.rate.left(b.done, b.total); left != "" && b.done < b.total {
		numbers += "  " + left + " left"
	}
	width := b.out.Width() - 1
	cells := width - len(b.what) - len(numbers) - 6
	if b.total <= 0 || cells < 5 {
		line := b.what + "  " + numbers
		return line[:min(len(line), max(width, 0))]
	}
	cells = min(cells, 40)
	full := int(int64(cells) * min(b.done, b.total) / b.total)
	return fmt.Sprintf("%s  [%s%s]  %s", b.what, strings.Repeat("=", full), strings.Repeat(" ", cells-full), numbers)
}

// stepLog writes a log line each tenth of a download, but not more often than every two seconds, the first after four
// seconds at the latest, and then at least twice a minute.
type stepLog struct {
	log *slog.Logger
	now func() time.Time

	what   string
	rate   rate
	logged time.Time
	spoke  bool
	tenth  int64
}

// NewStepLog returns a progress that writes a few lines to a log.
func NewStepLog(log *slog.Logger) Progress { return &stepLog{log: log, now: time.Now} }

func (s *stepLog) Start(what string) {
	*s = stepLog{log: s.log, now: s.now, what: what, logged: s.now()}
}

func (s *stepLog) Update(done, total int64) {
	now := s.now()
	s.rate.update(now, done)
	since := now.Sub(s.logged)
	var tenth int64
	if total > 0 {
		tenth = 10 * done / total
	}
	silence := 30 * time.Second
	if !s.spoke {
		silence = 4 * time.Second
	}
	if since < silence && (tenth == s.tenth || since < 2*time.Second) {
		return
	}
	s.logged, s.tenth, s.spoke = now, tenth, true
	attrs := []any{"version", s.what, "received", space.Format(done), "rate", space.Format(int64(s.rate.smooth)) + "/s"}
	if total > 0 {
		attrs = append(attrs, "percent", 100*done/total)
	}
	if left := s.rate.left(done, total); left != "" {
		attrs = append(attrs, "left", left)
	}
	s.log.Info("downloading", attrs...)
}

func (s *stepLog) End() {}
