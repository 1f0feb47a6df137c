package installer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/integration/tarball"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// ended is the one line of a history.
func ended(t *testing.T, i *Installer) state.Ended {
	t.Helper()
	h, err := i.History()
	must(t, err)
	if len(h.Ended) != 1 {
		t.Fatalf("the history has %+v", h.Ended)
	}
	return h.Ended[0]
}

// An attempt that ends with its version on disk, before the change of version, is in the history with the command that asked.
func TestTheHistoryHasAttemptsThatEndBeforeTheSwitch(t *testing.T) {
	for command, tc := range map[string]struct {
		does func(*shelf) error
		says string
	}{
		"enable": {func(s *shelf) error {
			s.publish("1.1.0")
			writeFile(t, s.Machine.Host.Paths.Unit(), "[Service]\nExecStart=/bin/sh -c teleport\n")
			in := &intent{wanted: wanted{Release: oss("1.1.0"), Config: s.c, Spec: s.c.Spec}}
			in.Request = transaction.Request{Kind: transaction.Enable, From: s.c.Active(), To: named(in.Release), Spec: &in.Spec}
			return s.carryOut(t.Context(), in)
		}, "its arguments cannot be kept"},
		"rollback": {func(s *shelf) error {
			runs := filepath.Join(s.dir, "runs")
			items := tarball.Sound("1.1.0")
			for n := range items {
				if items[n].Name == "teleport/teleport" {
					items[n].Data = fmt.Sprintf("#!/bin/sh\ntest -e %s || exit 3\necho Teleport v1.1.0 git:v1.1.0-0 go1.22\n", runs)
				}
			}
			s.put("1.1.0", items)
			writeFile(t, runs, "")
			s.has("1.1.0")()
			must(t, os.RemoveAll(runs))
			return s.Rollback(t.Context(), RollbackOptions{Version: "1.1.0"})
		}, "exit status 3"},
	} {
		t.Run(command, func(t *testing.T) {
			s := newShelf(t)
			s.Machine.Connect = sightOf(s.Installer, func(u *systemd.Unit, _ *string) { u.ActiveState = "" })
			for range 2 { // again, in the same way
				if err := tc.does(s); err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("%v; want %q", err, tc.says)
				}
				s.Started = noon
				s.Settle(t.Context(), command)
			}
			if e := ended(t, s.Installer); e.Cause != command || e.To != oss("1.1.0") || e.From != oss("1.0.0") || e.Result != state.FailedEarly || !strings.Contains(e.Error, tc.says) {
				t.Errorf("the history has %+v", e)
			}
		})
	}
}

// A FIPS build that would run without --fips is refused by each run of the timer: one fails, status says why, and the
// history has one line.
func TestARunThatIsRefusedBeforeTheSwitchFailsOnce(t *testing.T) {
	w := newWorld(t)
	w.wants.Edition = version.FIPS
	s := &shelf{T: t, Installer: w.Installer, dir: t.TempDir()}
	items := tarball.Enterprise(tarball.Sound("1.1.0"))
	for n := range items {
		items[n].Data = strings.Replace(items[n].Data, "go1.22", "go1.22 X:boringcrypto", 1)
	}
	s.put("1.1.0", items)
	c := configOf(t, w.Installer)
	c.Spec.URLTemplates = []string{"file://" + s.dir + "/{{.Version}}.tar.gz"}
	must(t, c.Save(w.Machine.Host.Paths.Config()))
	for n := range 3 {
		w.Started = w.clock
		_, err := w.tick()
		if n == 0 && !failure.Is[*failure.RefusedError](err) || n > 0 && err != nil {
			t.Errorf("run %d ends with %v", n+1, err)
		}
		w.Settle(t.Context(), "update")
		w.clock = w.clock.Add(10 * time.Minute)
	}
	if e := ended(t, w.Installer); e.Cause != "update" || e.By != "timer" || !strings.Contains(e.Error, "without --fips") {
		t.Errorf("the history has %+v", e)
	}
	if r := w.state(); r.State != decision.NeedsAttention || !strings.Contains(r.Explanation, "without --fips") {
		t.Errorf("status: %s: %s", r.State, r.Explanation)
	}
}
