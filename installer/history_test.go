package installer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/version"
)

func oss(v string) version.Release { return version.Release{Version: v, Edition: version.OSS} }

// switched writes an updates.yaml that tells of a transaction.
func switched(t *testing.T, i *Installer, last state.LastUpdate, active, previous string) {
	t.Helper()
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: active}
	c.Status = state.Status{ActiveEdition: version.OSS, PreviousVersion: previous, PreviousEdition: version.OSS, LastUpdate: &last}
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	must(t, c.Save(i.Machine.Host.Paths.Config()))
}

func TestTheHistoryHasEachTransactionOnce(t *testing.T) {
	i := testInstaller(t)
	i.Started, i.Machine.Now = noon, func() time.Time { return noon.Add(time.Hour) }
	i.Machine.Scheduled, i.downloadTook = true, 1500*time.Millisecond
	took := map[string]state.Duration{"watch": state.Duration(30 * time.Second)}
	for range 2 {
		switched(t, i, state.LastUpdate{Time: noon.Add(time.Minute), Target: "1.1.0", TargetEdition: version.OSS, Result: state.Succeeded, Took: took}, "1.1.0", "1.0.0")
		i.Settle(t.Context(), "update")
	}
	i.Machine.Scheduled = false
	t.Setenv("SUDO_USER", "ann")
	for n := range 3 { // an attempt that fails again in the same way is one line
		switched(t, i, state.LastUpdate{Time: noon.Add(2*time.Minute + time.Duration(n)*time.Second), Target: "1.2.0", TargetEdition: version.OSS, Result: state.FailedEarly, Error: "404"}, "1.1.0", "1.0.0")
		if added := i.chronicle().addEnded(configOf(t, i), "update"); added != nil {
			t.Errorf("hooks hear of an attempt that changed nothing: %+v", added)
		}
	}
	switched(t, i, state.LastUpdate{Time: noon.Add(3 * time.Minute), Target: "1.2.0", TargetEdition: version.OSS, Result: state.RolledBack, Error: "it died"}, "1.1.0", "1.0.0")
	i.Settle(t.Context(), "pin")
	switched(t, i, state.LastUpdate{Time: noon.Add(-time.Minute), Target: "1.3.0", TargetEdition: version.OSS, Result: state.Interrupt, Error: "cut"}, "1.1.0", "1.0.0")
	i.Settle(t.Context(), "status")

	whole, err := i.History()
	must(t, err)
	h := slices.Clone(whole.Ended)
	if len(h) != 4 {
		t.Fatalf("there are %+v", h)
	}
	slices.Reverse(h) // the newest is the first
	if s := h[1]; s.Cause != "update" || s.By != "ann" || s.To != oss("1.2.0") || s.Result != state.FailedEarly || s.Error != "404" || !s.Time.Equal(noon.Add(2*time.Minute+2*time.Second)) {
		t.Errorf("an attempt that failed before anything was changed: %+v", s)
	}
	h = slices.Delete(h, 1, 2)
	if s := h[0]; s.Cause != "update" || s.By != "timer" || s.From != oss("1.0.0") || s.To != oss("1.1.0") || s.Result != state.Succeeded ||
		s.Took["watch"].Std() != 30*time.Second || s.Took["download"].Std() != 1500*time.Millisecond {
		t.Errorf("an update: %+v", s)
	}
	if s := h[1]; s.Cause != "pin" || s.By != "ann" || s.From != oss("1.1.0") || s.To != oss("1.2.0") || s.Result != state.RolledBack || s.Error != "it died" {
		t.Errorf("one that was rolled back: %+v", s)
	}
	if s := h[2]; s.Cause != "recovery" || s.By != "" {
		t.Errorf("one of another command: %+v", s)
	}
	var text strings.Builder
	must(t, view.WriteHistory(&text, whole))
	for _, want := range []string{"update    timer  1.0.0  1.1.0  succeeded    download 1.5s, watch 30s", "rolled_back  download 1.5s             it died\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("as text it lacks %q:\n%s", want, text.String())
		}
	}
	r, err := i.Status(t.Context(), StatusOptions{Offline: true})
	if must(t, err); r.LastSuccess == nil || !r.LastSuccess.Equal(noon.Add(time.Minute)) || !r.UpdateTimeLast.Equal(noon.Add(-time.Minute)) || r.DesiredError != nil {
		t.Errorf("status: last success %v, last attempt %v, %v", r.LastSuccess, r.UpdateTimeLast, r.DesiredError)
	}
}

func TestTheHistoryKeepsAHundredTransactions(t *testing.T) {
	i := testInstaller(t)
	i.Started = noon
	for n := range state.HistoryLength + 5 {
		switched(t, i, state.LastUpdate{Time: noon.Add(time.Duration(n) * time.Minute), Target: "1.1.0", TargetEdition: version.OSS, Result: state.Succeeded}, "1.1.0", "1.0.0")
		i.Settle(t.Context(), "update")
	}
	whole, err := i.History()
	must(t, err)
	h := whole.Ended
	if len(h) != state.HistoryLength || !h[len(h)-1].Time.Equal(noon.Add(5*time.Minute)) || h[0].Time.Before(h[1].Time) {
		t.Errorf("%d transactions, from %v to %v", len(h), h[0].Time, h[len(h)-1].Time)
	}
	writeFile(t, i.Machine.Host.Paths.History(), "no JSON")
	if h, err := i.History(); h.Ended == nil || len(h.Ended) != 0 || err == nil {
		t.Errorf("of a file that is none: %+v, %v", h, err)
	}
}

// What everybody may read holds nothing that root alone should know.
func TestTheSummaryIsForEverybody(t *testing.T) {
	i := testInstaller(t)
	i.Machine.Now, i.Machine.BootID = func() time.Time { return noon }, func() string { return "boot" }
	i.Machine.Host.Paths.RunDir = filepath.Join(filepath.Dir(i.Machine.Host.Paths.DataDir), "run")
	switched(t, i, state.LastUpdate{Time: noon, Target: "1.1.0", TargetEdition: version.OSS, Result: state.RolledBack, Error: "marked-error"}, "1.0.0", "")
	m := i.ticks()
	m.Failing = &state.Failing{Count: 2, First: noon, Last: noon, Error: "marked-failure at https://user:marked-secret@mirror.example"}
	must(t, m.Save(i.Machine.Host.Paths.Ticks()))
	i.Settle(t.Context(), "update")
	data, err := os.ReadFile(i.Machine.Host.Paths.Summary())
	must(t, err)
	info, err := os.Stat(i.Machine.Host.Paths.Summary())
	must(t, err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("its mode is %v", info.Mode())
	}
	var s view.Summary
	must(t, json.Unmarshal(data, &s))
	if s.SchemaVersion != view.StatusSchema || !s.WrittenAt.Equal(noon) || s.State != decision.NeedsAttention || *s.VersionInstalled != "1.0.0" || !slices.ContainsFunc(s.Conditions, func(c view.ShortCondition) bool { return c.Type == decision.RunsFail }) {
		t.Errorf("it says %s", data)
	}
	for _, word := range []string{"marked", "127.0.0.1", filepath.Dir(i.Machine.Host.Paths.DataDir)} {
		if strings.Contains(string(data), word) {
			t.Errorf("it holds %q:\n%s", word, data)
		}
	}
	if info, err := os.Stat(i.Machine.Host.Paths.Ticks()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("what the runs remember: %v, %v", info, err)
	}
}

// A history that cannot be read in one run is not written over with the one line of that run.
func TestAHistoryThatIsNotReadThisTimeIsKept(t *testing.T) {
	i := testInstaller(t)
	i.Started, i.Machine.Now = noon, func() time.Time { return noon.Add(time.Hour) }
	succeeded := func(n int) {
		switched(t, i, state.LastUpdate{Time: noon.Add(time.Duration(n) * time.Minute), Target: "1.1.0", TargetEdition: version.OSS, Result: state.Succeeded}, "1.1.0", "1.0.0")
		i.Settle(t.Context(), "update")
	}
	for n := range 3 {
		succeeded(n)
	}
	path := i.Machine.Host.Paths.History()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK) // each open of it ends with EAGAIN
	must(t, err)
	succeeded(3)
	i.chronicle().addRepair(oss("1.1.0"), []string{"a link is gone"})
	must(t, f.Close())
	if h, err := i.History(); len(h.Ended) != 3 || err != nil {
		t.Errorf("%d transactions, %v; want the 3 of before", len(h.Ended), err)
	}
	i.Settle(t.Context(), "status")
	if h, err := i.History(); len(h.Ended) != 4 || err != nil {
		t.Errorf("%d transactions, %v; the next run adds the one that was left out", len(h.Ended), err)
	}
}

// A command of a person's that ends well clears what runs of the timer failed with.
func TestACommandThatEndsWellClearsTheFailures(t *testing.T) {
	w := testInstaller(t)
	w.Machine.Now, w.Machine.BootID = func() time.Time { return noon }, func() string { return "boot" }
	w.Machine.Host.Paths.RunDir = filepath.Join(filepath.Dir(w.Machine.Host.Paths.DataDir), "run")
	m := w.ticks()
	m.Error, m.Failing, m.Unreachable = "no route", &state.Failing{Count: 2, First: noon, Last: noon, Error: "no route"}, &state.Unreachable{Since: noon}
	must(t, m.Save(w.Machine.Host.Paths.Ticks()))
	w.succeeded()
	if m := w.ticks(); m.Failing != nil || m.Unreachable != nil || m.Error != "" || !m.Good.Equal(noon) {
		t.Errorf("after a success they are %+v", m)
	}
}
