package installer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/procfs"
	"teleport-update/internal/successor"
)

// settledForm begins a settled record, and is another one where a field means something else.
const settledForm = "teleport-update settled 2"

// never stands in the place of the time at which a file is written.
const never = "0001-01-01T00:00:00Z"

// settled is what a run of the timer leaves that found nothing to do: all that the next
// run needs to see that nothing has changed, and to do what such a run does. It lies in
// /run. One line is one quoted string: JSON takes longer to read than the look takes.
type settled struct {
	Form  string
	At    string // seconds since 1970
	Given string

	DataDir, RunDir string
	Question        find.Request
	CAFile          string
	Answer          string
	Reason          string // what the run said

	Heartbeat string // of Reporter.Prepare; empty: the host does not report
	LastFound string // find.json, which the next run writes with its own time
	Summary   string // status.json, likewise

	Premises []premise
}

func (s *settled) fields() []*string {
	q := &s.Question
	return []*string{&s.Form, &s.At, &s.Given, &s.DataDir, &s.RunDir, &q.Proxy, &q.Host, &q.Group, &q.UpdateID, &s.CAFile,
		&s.Answer, &s.Reason, &s.Heartbeat, &s.LastFound, &s.Summary}
}

func (s *settled) encode() []byte {
	var b []byte
	for _, f := range s.fields() {
		b = append(strconv.AppendQuote(b, *f), '\n')
	}
	for _, p := range s.Premises {
		for _, text := range []string{p.Path, string(p.Care), p.Seen} {
			b = append(strconv.AppendQuote(b, text), '\n')
		}
	}
	return append(b, settledEnd...)
}

// settledEnd tells a record that is whole.
const settledEnd = "end\n"

func decodeSettled(text string) (s settled, ok bool) {
	text, whole := strings.CutSuffix(text, settledEnd)
	next := func() (line string) {
		quoted, rest, found := strings.Cut(text, "\n")
		line, err := strconv.Unquote(quoted)
		whole, text = whole && found && err == nil, rest
		return line
	}
	for _, f := range s.fields() {
		*f = next()
	}
	s.Premises = make([]premise, 0, strings.Count(text, "\n")/3)
	for whole && text != "" {
		s.Premises = append(s.Premises, premise{next(), care(next()), next()})
	}
	return s, whole && s.Form == settledForm && len(s.Premises) > 0
}

// calm is a run of the timer that has found nothing to do so far.
type calm struct {
	before []premise
	lines  *atomic.Int32 // that the run has logged
	found  settled       // what it went by; without a Reason it is not through
}

// beginCalm notes how the host is before the run looks at it. A run that is a newer
// updater's is none: the next one is begun by the older program again.
func (i *Installer) beginCalm() {
	dir := i.Paths.RunDir
	if i.calm = nil; !i.Scheduled || dir == "" || dir != os.Getenv("RUNTIME_DIRECTORY") || successor.Current() != nil {
		return
	}
	if slices.Contains(i.Command, "--debug") || slices.Contains(i.Command, "--log-format") {
		return // which a quick look would have to follow
	}
	c, err := i.Paths.LoadConfig()
	if err != nil || c.Spec.ActiveVersion == "" || c.Spec.TextfileDir != "" {
		return
	}
	before, err := i.premises(c)
	if err != nil {
		return
	}
	i.calm = &calm{before: before, lines: new(atomic.Int32)}
	i.Log = slog.New(&counting{i.Log.Handler(), i.calm.lines})
}

// counting counts what is logged.
type counting struct {
	slog.Handler
	lines *atomic.Int32
}

func (h *counting) Handle(ctx context.Context, r slog.Record) error {
	h.lines.Add(1)
	return h.Handler.Handle(ctx, r)
}

// settle leaves a settled record where this run had nothing to do and to say but that,
// and takes away another one.
func (i *Installer) settle(ctx context.Context, c state.Config, r Report) {
	if i.calm == nil {
		return
	}
	s, ok := i.settled(ctx, c, r)
	if !ok {
		_ = os.Remove(i.Paths.Settled())
		return
	}
	if err := state.WriteForRoot(i.Paths.Settled(), s.encode()); err != nil {
		i.Log.Debug("it could not be recorded that there is nothing to do", "error", err)
	}
}

func (i *Installer) settled(ctx context.Context, c state.Config, r Report) (s settled, ok bool) {
	s = i.calm.found
	answer := i.recall(i.calm.specAsked())
	if s.Reason == "" || answer == nil || i.calm.lines.Load() != 1 || r.State != StateIdle || i.hasOldVersions(i.Needed(c)) {
		return s, false
	}
	agent, ok := i.servers(ctx, r)
	if !ok {
		return s, false
	}
	all, err := i.premises(c)
	if err != nil || !i.sameBefore(all) {
		return s, false
	}
	s.Premises = append(all, agent...)
	s.Form, s.Given, s.At = settledForm, given(), strconv.FormatInt(i.Now().Unix(), 10)
	s.DataDir, s.RunDir = i.Paths.DataDir, i.Paths.RunDir
	summary, err1 := r.summary(time.Time{}).text()
	answer.Time = time.Time{}
	found, err2 := json.Marshal(answer)
	s.Summary, s.LastFound = string(summary), string(found)+"\n"
	if reporter := i.reporter(c.Spec.CAFile); reporter.Enabled() {
		b := i.heartbeat(c, i.calm.specAsked())
		if s.Heartbeat, err = reporter.Prepare(b); s.Heartbeat == "" && b.HostID != "" {
			return s, false // it has yet to join
		}
	}
	return s, errors.Join(err, err1, err2) == nil
}

// specAsked is the proxy and the group that find was asked with.
func (c *calm) specAsked() state.Spec {
	return state.Spec{Proxy: c.found.Question.Proxy, Group: c.found.Question.Group, Enabled: true}
}

// sameBefore reports whether nothing has changed since the run began, but what runs
// remember of each other.
func (i *Installer) sameBefore(now []premise) bool {
	return slices.EqualFunc(i.calm.before, now, func(a, b premise) bool {
		return a == b || a.Path == b.Path && a.Path == i.Paths.Ticks()
	})
}

// servers are the processes of an agent that is well. ok is false where it is not, or
// where a condition may go away by itself.
func (i *Installer) servers(ctx context.Context, r Report) (all []premise, ok bool) {
	sight, err := i.look(ctx)
	if err != nil {
		return nil, false
	}
	unknown := sight.State == state.AgentUnknown
	if slices.ContainsFunc(r.Conditions, func(c Condition) bool { return c.Type != Unproven || !unknown }) {
		return nil, false
	}
	if unknown {
		return nil, r.Agent.Error == nil // there is no systemd
	}
	if sight.State != state.AgentRunning || sight.ActiveState != "active" || sight.Main.PID == 0 {
		return nil, false
	}
	l := list{seen: map[string]bool{}}
	for _, p := range []procfs.Process{sight.Main, sight.Serving} {
		if p.PID != 0 {
			l.all = append(l.all, premise{strconv.Itoa(p.PID), process, seenOf(p)})
		}
	}
	l.add(wholly, sight.PIDFile)
	return l.all, l.err == nil
}
