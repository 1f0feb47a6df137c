//go:build hosts

package fleet

import (
	"os"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
)

// stories happen to one fleet, one after the other: each begins where all hosts
// run one version, and says which one they run at its end.
var stories = []struct {
	name  string
	short bool // also where the whole is not asked for
	run   func(p *play, before string) (after string)
}{
	{"A good release goes from group to group", true, goodRelease},
	{"A release that breaks on the canary goes no further", true, brokenRelease},
	{"A release that breaks on one host of a guarded group halts there, and goes on marked done", false, brokenHost},
	{"A group that is rolled back has its databases again", false, rolledBack},
	{"Nobody moves while updates are suspended", false, suspended},
	{"The server is killed in the middle of a plan", false, killed},
	{"The server is gone for an hour", false, away},
	{"A host is cloned with its secret", false, cloned},
}

// TestAFleet has all stories told with FAULTS=all, as `make test-fleet` has it.
func TestAFleet(t *testing.T) {
	version := "1.0.0"
	p := newPlay(t, version)
	for _, story := range stories {
		if !story.short && os.Getenv("FAULTS") != "all" {
			continue
		}
		if !t.Run(story.name, func(t *testing.T) {
			version = story.run(p.on(t), version)
			p.on(t).serve(version, p.Hosts...)
		}) {
			return // the next one would begin with another fleet than it expects
		}
	}
}

func goodRelease(p *play, before string) string {
	p.sound("1.1.0")
	p.find("", "set-version", "1.1.0")
	p.pass(Poll)
	p.is(rollout.Unstarted, rollout.Unstarted, rollout.Unstarted)
	p.serve(before, p.Hosts...)

	p.at(13)
	p.is(rollout.Canarying, rollout.Unstarted, rollout.Unstarted)
	p.pass(Poll)
	// The canary has updated, and lets the other host go.
	p.is(rollout.Active, rollout.Unstarted, rollout.Unstarted)
	if n := p.group("dev").UpToDate; n != 1 {
		p.Errorf("%d hosts of dev are updated after its canary", n)
	}
	p.until("dev", rollout.Done)
	p.serve("1.1.0", p.dev...)
	p.serve(before, append(p.stage, p.prod...)...)

	p.pass(Poll)
	p.is(rollout.Done, rollout.Unstarted, rollout.Unstarted)
	p.at(15)
	p.until("stage", rollout.Done)
	p.serve("1.1.0", p.stage...)
	p.serve(before, p.prod...)

	p.at(17)
	for n := 1; n <= len(p.prod); n++ {
		p.pass(Poll)
		if got := p.group("prod").UpToDate; got != n {
			p.Errorf("%d hosts of prod are updated after %d looks of one at a time", got, n)
		}
	}
	p.is(rollout.Done, rollout.Done, rollout.Done)
	if word := p.status().Word; word != "done" {
		p.Errorf("status says %s", word)
	}
	return "1.1.0"
}

func brokenRelease(p *play, before string) string {
	p.check(p.Release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart}))
	p.find("", "set-version", "1.2.0")
	p.at(13)
	p.is(rollout.Canarying, rollout.Unstarted, rollout.Unstarted)
	failed := 0
	for _, code := range p.pass(Poll) {
		failed += code
	}
	if failed != 1 {
		p.Errorf("%d hosts tried the release", failed)
	}
	dev := p.group("dev")
	if dev.State != rollout.Canarying || dev.Halted == nil || dev.Halted.Reason != rollout.CanaryFailed {
		p.Fatalf("dev is %+v", dev)
	}
	// Status begins with it, and names the host and its error.
	status := p.find("", "status")
	var broken *Host
	for _, h := range p.dev {
		if p.known(h).State == adminapi.HostFailed {
			broken = h
		}
	}
	if broken == nil || !strings.HasPrefix(status, "halted") || !strings.Contains(status, broken.Name) || !strings.Contains(status, "the process of the new version died") {
		p.Errorf("%v is broken, and status says\n%s", broken, status)
	}
	// Neither time nor the hours of the other groups move anybody.
	p.at(15)
	p.at(17)
	p.is(rollout.Canarying, rollout.Unstarted, rollout.Unstarted)
	p.serve(before, p.Hosts...)
	return before
}

func brokenHost(p *play, before string) string {
	p.sound("1.3.0")
	broken := p.stage[0]
	p.check(broken.WriteFile("/etc/teleport.yaml", []byte("teleport: {diag_addr: 127.0.0.1:3000}\nstand_in: {breaks_on: [1.3.0]}\n"), 0o644))
	p.find("", "set-version", "1.3.0")
	p.at(13)
	p.until("dev", rollout.Done)
	p.at(15)
	p.pass(Poll)
	stage := p.group("stage")
	if stage.State != rollout.Active || stage.Halted == nil || stage.Halted.Reason != rollout.HostsFailed || !strings.Contains(stage.Halted.Message, broken.Name) {
		p.Fatalf("stage is %+v", stage)
	}
	p.at(17)
	p.is(rollout.Done, rollout.Active, rollout.Unstarted)
	p.serve(before, append(p.prod, broken)...)

	p.find("", "rollout", "done", "stage", "--reason", "the host is known")
	if history := p.find("", "history"); !strings.Contains(history, "the host is known") || !strings.Contains(history, "rollout done stage") {
		p.Errorf("the history is\n%s", history)
	}
	// It is still the hour of prod.
	p.until("prod", rollout.Done)
	p.serve("1.3.0", p.prod...)
	p.serve(before, broken)

	// The host is mended, and a person has it try again.
	p.check(broken.WriteFile("/etc/teleport.yaml", []byte("teleport: {diag_addr: 127.0.0.1:3000}\n"), 0o644))
	_, err := broken.Must(p.Context(), Updater, "update", "--now")
	p.check(err)
	return "1.3.0"
}

func rolledBack(p *play, before string) string {
	p.check(p.Release(release.Spec{Version: "1.4.0", Schema: 2}))
	left := make(map[*Host]Rows)
	p.find("", "set-version", "1.4.0", "--start", before)
	p.at(13)
	for _, h := range p.dev {
		rows, err := h.Rows(p.Context())
		p.check(err)
		left[h] = rows
	}
	p.until("dev", rollout.Done)
	p.serve("1.4.0", p.dev...)
	for _, h := range p.dev {
		if rows, err := h.Rows(p.Context()); err != nil || rows.Schema != 2 {
			p.Errorf("after the update the database of %s holds %+v (%v)", h.Name, rows, err)
		}
	}
	p.find("", "rollout", "back", "dev", "--reason", "not wanted")
	p.pass(Poll)
	p.serve(before, p.dev...)
	for _, h := range p.dev {
		rows, err := h.Rows(p.Context())
		if err != nil || rows.Schema != 1 || rows.Rows < left[h].Rows || rows.ByVersion["1.4.0"] != 0 {
			p.Errorf("after the rollback the database of %s holds %+v (%v); before the update it held %+v", h.Name, rows, err, left[h])
		}
	}
	p.at(15)
	p.is(rollout.RolledBack, rollout.Unstarted, rollout.Unstarted)
	return before
}

func suspended(p *play, before string) string {
	p.sound("1.5.0")
	p.find("", "set-version", "1.5.0")
	p.at(13)
	p.until("dev", rollout.Done)
	p.at(15)
	p.is(rollout.Done, rollout.Active, rollout.Unstarted)
	p.find("", "mode", "suspended")
	p.pass(30 * time.Minute)
	p.is(rollout.Done, rollout.Active, rollout.Unstarted)
	p.serve("1.5.0", p.dev...)
	p.serve(before, append(p.stage, p.prod...)...)
	p.find("", "mode", "enabled")
	p.until("stage", rollout.Done)
	p.at(17)
	p.until("prod", rollout.Done)
	return "1.5.0"
}

func killed(p *play, before string) string {
	const version = "1.6.0"
	p.sound(version)
	p.find("", "set-version", version)
	p.at(13)
	p.until("dev", rollout.Done)
	p.at(15)
	p.until("stage", rollout.Done)
	p.at(17)
	p.pass(Poll)
	prod := p.group("prod")
	if prod.State != rollout.Active || prod.UpToDate != 1 {
		p.Fatalf("prod is %+v", prod)
	}
	admitted := prod.Plan.LastActiveHostIndex
	// Who was last seen when is written once a minute. The hosts have missed a look before
	// this hour: who misses two in a row has timed out.
	for range 2 {
		p.check(p.Jump(p.Now().Add(time.Minute)))
		p.check(p.Settle(p.Context()))
	}
	p.Kill()
	p.check(p.Start(p.Context()))
	p.check(p.Settle(p.Context()))
	if again := p.group("prod"); again.State != rollout.Active || again.Plan.LastActiveHostIndex < admitted {
		p.Errorf("after the restart prod is %+v, and before it was %+v", again, prod)
	}
	if polls := p.until("prod", rollout.Done); polls != 2 {
		p.Errorf("the other two hosts took %d looks of one at a time", polls)
	}
	return version
}

func away(p *play, before string) string {
	const version = "1.7.0"
	p.sound(version)
	p.find("", "set-version", version)
	p.at(13)
	p.pass(Poll)
	p.is(rollout.Active, rollout.Unstarted, rollout.Unstarted)
	p.Kill()
	for range 6 {
		p.check(p.Jump(p.Now().Add(Poll)))
		_, err := p.Tick(p.Context(), p.Hosts...)
		p.check(err)
	}
	p.serve(before, append(p.stage, p.prod...)...)
	p.check(p.Start(p.Context()))
	p.pass(Poll)
	if o := p.status(); o.Word != "counting" || !o.Server.Waiting {
		p.Errorf("after the restart status says %s: %s", o.Word, o.Sentence)
	}
	p.is(rollout.Active, rollout.Unstarted, rollout.Unstarted)
	p.until("dev", rollout.Done)
	p.at(15)
	p.until("stage", rollout.Done)
	p.at(17)
	p.until("prod", rollout.Done)
	return version
}

func cloned(p *play, before string) string {
	const version = "1.8.0"
	p.sound(version)
	twin := p.stage[1]
	if known := p.known(twin); known.Omitted != "" {
		p.Fatalf("before it was cloned, the host is %+v", known)
	}
	copied, err := p.Clone(p.Context(), twin)
	p.check(err)
	p.serve(before, twin, copied)
	if a, b := p.id(twin), p.id(copied); a != b {
		p.Fatalf("the host has the id %s, and its copy %s", a, b)
	}
	p.pass(2 * Poll)
	p.shown(twin, "cloned", "several hosts report with one secret")
	if status := p.find("", "status"); !strings.Contains(status, "not counted: 1 (several hosts report with one secret)") {
		p.Errorf("status does not tell of the clone:\n%s", status)
	}

	// stage tolerates no failure. That of the copy halts nobody: nobody knows whose it is.
	p.check(copied.WriteFile("/etc/teleport.yaml", []byte("teleport: {diag_addr: 127.0.0.1:3000}\nstand_in: {breaks_on: ["+version+"]}\n"), 0o644))
	p.find("", "set-version", version)
	p.at(13)
	p.until("dev", rollout.Done)
	p.at(15)
	p.until("stage", rollout.Done)
	if n := p.group("stage"); n.Present != 1 || n.UpToDate != 1 || n.Failed != 0 {
		p.Errorf("stage counts %+v", n)
	}
	p.serve(version, twin)
	p.serve(before, copied)
	p.at(17)
	p.until("prod", rollout.Done)

	// Once the copy is gone for long enough, the host counts again.
	p.check(p.Remove(copied))
	p.pass(40 * time.Minute)
	p.shown(twin, "on_target", "")
	if n := p.group("stage"); n.Present != 2 || n.UpToDate != 2 {
		p.Errorf("without the copy stage counts %+v", n)
	}
	return version
}
