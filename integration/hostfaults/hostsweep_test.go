//go:build hosts

package hostfaults

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/sample"
	"teleport-update/integration/scenes"
	"teleport-update/ospackage"
	"teleport-update/versions"
)

// everything asks for the whole campaign instead of the part that every run of
// the tests has.
var everything = os.Getenv("FAULTS") == "all"

// Requests to systemd count as calls: what was asked for goes on without the
// updater.
const messages = "StartUnit,StopUnit,RestartUnit,ReloadUnit,Reload,ResetFailedUnit"

// entriesOnly is the stride of a sweep that kills before each call and not after it,
// too: after one call and before the next the host is the same, and a request to
// systemd counts as a call.
const entriesOnly = 2

// ordinary is the stride where not the whole campaign is run: some calls, at their
// entries and their exits in turn. What each call leaves on disk is swept without a
// host, and what follows is tried with a model of an agent.
const ordinary = 29

// budget is for a case of which an ordinary machine has a part in less than three minutes.
const budget = 8 * time.Minute

// sweepCase is one transaction on a host whose agent runs, to be killed at every call.
type sweepCase struct {
	name     string
	from, to release.Spec
	kind     string // of the request
	window   time.Duration
	always   bool // in every run of the tests, not only in the campaign
	healthy  bool // the transaction succeeds if nobody cuts it off
	// prepare brings a host, which runs the older of the two, to where the transaction
	// begins.
	prepare func(w *sweptHost)
	// cutAfter: the transaction is killed once systemd has done this, always, and the
	// recovery is what is killed at every call.
	cutAfter string
	// takesOver: the agent was brought by such a package, and what is killed is the
	// recovery of a first transaction that had just been proven.
	takesOver ospackage.Kind
	replaces  *origin // the updater that the host has
	// soft: after each kill the host is booted softly, which keeps its kernel.
	soft bool
	// some and all are the strides in ordinary runs of the tests and in the
	// campaign, if they are not the usual ones.
	some, all int64
	trees     *trees
}

func sweepCases() []sweepCase {
	v1, v2 := release.Spec{Version: "1.0.0", Schema: 1}, release.Spec{Version: "1.1.0", Schema: 2}
	migratesAndDies := v2
	migratesAndDies.Variant = stamp.MigratesThenExits
	dies := v1
	dies.Variant = stamp.ExitsAtStart // but was sound when it left its database
	forth := func(w *sweptHost) { w.Updates("1.1.0") }
	return []sweepCase{
		{name: "update", from: v1, to: v2, kind: "update", window: 100 * time.Millisecond, always: true, healthy: true},
		{name: "update to a version that fails", from: v1, to: migratesAndDies, kind: "update", window: 500 * time.Millisecond, always: true},
		{name: "downgrade", from: v2, to: v1, kind: "downgrade", window: 100 * time.Millisecond, healthy: true, prepare: forth, all: entriesOnly},
		{name: "downgrade to a version that fails", from: v2, to: dies, kind: "downgrade", window: time.Second, prepare: forth},
		{name: "roll-forward", from: v1, to: v2, kind: "update", window: 100 * time.Millisecond, healthy: true, all: entriesOnly, prepare: func(w *sweptHost) {
			forth(w)
			w.Updates("1.0.0") // a rollback by hand would hold 1.1.0 back
		}},
		{name: "rollback", from: v2, to: v1, kind: "rollback", window: 100 * time.Millisecond, healthy: true, prepare: forth, all: entriesOnly},
		{name: "recovery of an update", from: v1, to: v2, kind: "update", window: 100 * time.Millisecond, healthy: true, cutAfter: "ReloadUnit"},
		{name: "recovery of an update to a version that fails", from: v1, to: migratesAndDies, kind: "update", window: 500 * time.Millisecond, cutAfter: "StopUnit"},
		{name: "recovery of a downgrade", from: v2, to: v1, kind: "downgrade", window: 100 * time.Millisecond, healthy: true, prepare: forth, cutAfter: "StopUnit"},
		{name: "recovery of a downgrade to a version that fails", from: v2, to: dies, kind: "downgrade", window: time.Second, prepare: forth, cutAfter: "StartUnit"},
	}
}

// The real transaction on a running host, killed before and after every call that
// changes something. The next run, or the next boot and the run after it, ends on
// one whole version, and the run after that where the cluster wants the host.
func TestATransactionKilledAtEveryCallOnARunningHost(t *testing.T) {
	t.Parallel()
	var points, doubles, violations, reboots atomic.Int64
	var each []string
	cut := ""
	for _, c := range sweepCases() {
		count := &points
		if c.cutAfter != "" {
			count = &doubles
		}
		had := count.Load()
		cut += c.run(t, count, &violations, &reboots)
		if n := count.Load() - had; n > 0 && count == &points {
			each = append(each, fmt.Sprintf("%s %d", c.name, n))
		}
	}
	t.Logf("kill points by transaction: %s; violations: %d%s", strings.Join(each, ", "), violations.Load(), cut)
	t.Logf("kill points on hosts: %d, and in recoveries: %d, violations: %d (%d points had a boot of the host instead of a run)%s",
		points.Load(), doubles.Load(), violations.Load(), reboots.Load(), cut)
}

// run tries the points of a case, as many of them as this run of the tests has, and says how many a slow machine left out.
func (c sweepCase) run(t *testing.T, points, violations, reboots *atomic.Int64) (cut string) {
	if !c.always && !everything {
		return ""
	}
	some := sample.Within(budget)
	t.Run(c.name, func(t *testing.T) {
		c.trees = &trees{dir: t.TempDir(), all: map[string]versions.Tree{}}
		begun, had := time.Now(), points.Load()
		sweep := &sweep{sweepCase: c, order: c.pointsOfRun(t), some: some, points: points, violations: violations, reboots: reboots}
		t.Run("on", func(t *testing.T) {
			hosts := 2 // there are few points
			if everything {
				hosts = 4
			}
			if some.Late() {
				hosts /= 2
			}
			for n := range hosts {
				t.Run(fmt.Sprintf("host %d", n+1), sweep.onHost)
			}
		})
		some.Among(len(sweep.order.spread))
		t.Logf("%s: %d points of %d calls in %v%s", c.name, points.Load()-had, sweep.calls.Load(), time.Since(begun).Round(time.Second), some.Cut())
	})
	return some.Cut()
}

// pointsOfRun are those that this run of the tests has.
func (c sweepCase) pointsOfRun(t *testing.T) *order {
	t.Helper()
	o := everyPoint(max(1, c.all))
	if !everything {
		o.stride = max(ordinary, c.some)
	}
	if some := os.Getenv("FAULTS_POINTS"); some != "" {
		if n, err := fmt.Sscanf(some, "%d-%d/%d", &o.first, &o.last, &o.stride); n < 2 {
			t.Fatalf("FAULTS_POINTS=%s is not FIRST-LAST or FIRST-LAST/STRIDE: %v", some, err)
		}
	}
	return o
}

// sweep is one case on several hosts, which take the next point each.
type sweep struct {
	sweepCase
	order                       *order
	counted                     sync.Once // calls are, by a run that nobody cuts off
	some                        *sample.Sample
	calls                       atomic.Int64 // the most that a run had
	points, violations, reboots *atomic.Int64
}

func (s *sweep) onHost(t *testing.T) {
	var w *sweptHost // none, if there is no point for it
	for s.violations.Load() < 20 && s.some.Next() {
		if w == nil {
			w = newSweptHost(t, s.sweepCase)
			s.counted.Do(func() {
				s.killAt(w, noPoint)
				s.order.begin(s.end())
			})
		}
		n, more := s.order.take(s.end())
		if !more {
			break
		}
		s.killAt(w, n)
	}
	if w != nil {
		w.baseIsIntact()
	}
}

// end is the last point of any run. Runs differ by a few calls: what was not reached this time is no end yet.
func (s *sweep) end() int64 { return 2*s.calls.Load() + 8 }

// killAt tries one point, if the transaction comes so far.
func (s *sweep) killAt(w *sweptHost, n int64) {
	p := pointOf(n)
	p.reboot = p.reboot || w.soft
	w.reset()
	var report scenes.EndatReport
	switch {
	case w.takesOver != "":
		report = w.endAt(p, "", "recover")
	case w.cutAfter != "":
		w.endAt(point{call: w.cutCall()}, w.request, "switch")
		report = w.endAt(p, "", "recover")
	default:
		report = w.endAt(p, w.request, "switch")
	}
	for {
		most := s.calls.Load()
		if int64(report.Calls) <= most || s.calls.CompareAndSwap(most, int64(report.Calls)) {
			break
		}
	}
	if !report.Killed {
		return
	}
	s.points.Add(1)
	broken := func(format string, args ...any) {
		s.violations.Add(1)
		w.T.Errorf("VIOLATION at point %d, %v, %s: %s", n, p, report.At, fmt.Sprintf(format, args...))
	}
	if w.takesOver != "" {
		// Nothing has to be put back: nobody may come to do it for ten minutes.
		if problems := w.served(); problems != nil {
			broken("at once: %s", strings.Join(problems, "; "))
			return
		}
	}
	var v string
	var problems []string
	if p.reboot {
		s.reboots.Add(1)
		w.bootAgain(n)
		if v, problems = w.whole(afterBoot); problems != nil {
			broken("after the boot: %s", strings.Join(problems, "; "))
			return
		}
	} else {
		if r := w.Try(updater, "recover"); r.Code != 0 {
			broken("the recovery ends with %d: %s", r.Code, r.Stderr)
			return
		}
		if v, problems = w.whole(afterRun); problems != nil {
			broken("after the recovery: %s", strings.Join(problems, "; "))
			return
		}
	}
	r := w.Try(append([]string{updater}, w.asksAgain(v)...)...)
	if codes := w.codes(); !slices.Contains(codes, r.Code) {
		broken("the next run ends with %d, want one of %v: %s", r.Code, codes, r.Stderr)
		return
	}
	v, problems = w.whole(afterRun)
	if problems == nil {
		problems = w.leftovers()
		if w.takesOver != "" {
			problems = slices.Concat(problems, w.packageIsGone(), w.packagesVersionIsKept())
		}
	}
	if ends := w.endsOn(); problems == nil && !slices.Contains(ends, v) {
		problems = append(problems, fmt.Sprintf("the host is on %s; want it on one of %v", v, ends))
	}
	if problems != nil {
		broken("after the next run: %s", strings.Join(problems, "; "))
	}
}

// codes are the exit codes that the next ordinary run may have.
func (c sweepCase) codes() []int {
	if c.healthy {
		return []int{0}
	}
	// It tries and fails, or the version backs off already.
	return []int{1, 0}
}

// endsOn are the versions that the host may be on after that.
func (c sweepCase) endsOn() []string {
	switch {
	case c.kind == "rollback": // the cluster wants what it wanted, and a person did not say again
		return []string{c.from.Version, c.to.Version}
	case c.healthy:
		return []string{c.to.Version}
	}
	return []string{c.from.Version}
}

// endAt runs a command of the updater, kills it at the point, and tells about it.
// The second half of an update, which its transient unit runs, is one.
func (w *sweptHost) endAt(p point, stdin, command string, more ...string) scenes.EndatReport {
	w.T.Helper()
	args := []string{"/root/endat", "-messages", messages}
	if p.cut {
		args = append(args, "-cut", "/")
	}
	switch {
	case p.before != "":
		args = append(args, "-before", p.before)
	case p.exit:
		args = append(args, "-exit")
		fallthrough
	default:
		args = append(args, "-at", fmt.Sprint(p.call))
	}
	r, err := w.RunCommand(w.T.Context(), host.Command{Args: append(append(args, updater, command), more...), Stdin: strings.NewReader(stdin)})
	if err != nil {
		w.T.Fatal(err)
	}
	var report scenes.EndatReport
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		w.T.Fatalf("endat printed %q (%v)\n%s", r.Stdout, err, r.Stderr)
	}
	want := 0
	if command == "switch" {
		want = w.codes()[0]
	}
	if !report.Killed && report.ExitCode != want {
		w.T.Fatalf("a %s that nobody cuts off ends with %d; want %d:\n%s", command, report.ExitCode, want, r.Stderr)
	}
	return report
}
