package installer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/find"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/integration/trace"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// calmHost is a host whose timer has found nothing to do.
type calmHost struct {
	*shelf
	w    *world
	root string
}

func newCalmHost(t *testing.T) *calmHost {
	w, s := newWorld(t), newShelf(t)
	h := &calmHost{shelf: s, w: w, root: filepath.Dir(s.Paths.DataDir)}
	w.wants = find.Answer{Version: "1.0.0", Edition: version.OSS}
	must(t, os.RemoveAll(filepath.Join(s.Paths.Versions(), "1.0.0")))
	s.Paths.ProgramsDir = filepath.Join(h.root, "programs")
	s.Store.Programs = s.Paths.ProgramsDir
	s.has("1.0.0")()
	writeFile(t, s.Paths.AgentConfig, "teleport: {}\n")
	writeFile(t, filepath.Join(s.Paths.DataDir, "host_uuid"), "00000001-0000-4000-8000-000000000000\n")
	must(t, (&state.History{}).Add(state.Switch{Time: noon}, s.Paths.History()))
	s.c.Spec.Proxy, s.c.Spec.Enabled = w.url, true
	s.save()
	h.ready()
	for range 2 { // the first one links the version
		h.run()
	}
	if _, err := os.Stat(h.Paths.Settled()); err != nil {
		t.Fatal("a run that found nothing to do left no record: ", err)
	}
	return h
}

// ready makes of an Installer the one that the timer's unit starts.
func (h *calmHost) ready() {
	h.Paths.RunDir = filepath.Join(h.root, "run")
	h.T.Setenv("RUNTIME_DIRECTORY", h.Paths.RunDir)
	h.Installer.Log = slog.New(slog.NewTextHandler(io.Discard, nil)) // which counts
	h.Scheduled, h.Now, h.BootID = true, time.Now, procfs.BootID
	h.Connect = func(context.Context) (transaction.Agent, error) {
		return noAgent{seen{sight: transaction.Sight{State: state.AgentUnknown}}}, nil
	}
}

// noAgent is that of a host without systemd.
type noAgent struct{ seen }

func (noAgent) DaemonReload(context.Context) error { return nil }

// run is a whole run of the timer.
func (h *calmHost) run() {
	h.Helper()
	log := h.Installer.Log
	must(h.T, h.Update(h.Context(), UpdateOptions{}))
	h.Settle(h.Context(), "update")
	h.Installer.Log = log
}

func (h *calmHost) looks() bool {
	return QuickLook(h.Context(), h.Paths.RunDir, "test", slog.New(slog.DiscardHandler))
}

func (h *calmHost) record() settled {
	h.Helper()
	s, ok := loadSettled(h.Paths.Settled())
	if !ok {
		h.Fatal("there is no record")
	}
	return s
}

func (h *calmHost) leave(s settled) { must(h.T, state.WriteForRoot(h.Paths.Settled(), s.encode())) }

func TestAQuickLookDoesWhatARunWithNothingToDoDoes(t *testing.T) {
	h := newCalmHost(t)
	var log bytes.Buffer
	for _, path := range []string{h.Paths.LastAnswer(), h.Paths.Summary()} {
		data, err := os.ReadFile(path)
		must(t, err)
		old := strings.ReplaceAll(string(data), strconv.Itoa(time.Now().Year())+"-", "1999-")
		must(t, os.WriteFile(path, []byte(old), 0o600))
		must(t, os.Chmod(path, map[bool]fs.FileMode{true: 0o644, false: 0o600}[path == h.Paths.Summary()]))
	}
	if !QuickLook(t.Context(), h.Paths.RunDir, "test", slog.New(slog.NewTextHandler(&log, nil))) {
		t.Fatal("it does not apply")
	}
	if !strings.Contains(log.String(), `msg="version 1.0.0 is active and wanted"`) || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("it says %s", &log)
	}
	if a := h.recall(h.c.Spec); a == nil || time.Since(a.Time) > time.Minute || a.Version != "1.0.0" {
		t.Errorf("find.json says %+v", a)
	}
	before, err := os.ReadFile(h.Paths.Summary())
	must(t, err)
	if !h.looks() {
		t.Error("it does not apply twice")
	}
	h.run()
	after, err := os.ReadFile(h.Paths.Summary())
	must(t, err)
	if a, b := withoutTime(before), withoutTime(after); a != b || strings.Contains(string(before), "1999-") || strings.Contains(string(before), never) {
		t.Errorf("status.json of a quick look\n%s\nof a whole run\n%s", before, after)
	}
}

func withoutTime(summary []byte) string {
	lines := slices.DeleteFunc(strings.Split(string(summary), "\n"), func(line string) bool { return strings.Contains(line, `"written_at"`) })
	return strings.Join(lines, "\n")
}

// change is something that somebody does to a path, and undoes.
type change struct {
	name   string
	do     func(path string) error
	undo   func(path string) error
	absent bool // it is for a path where nothing is
	file   bool // it is for a file alone
	folder bool // it is for a folder alone
	placed bool // it is seen of a folder on the way, too
}

func changes(aside string) []change {
	nothing := func(string) error { return nil }
	toggle := func(bit fs.FileMode) func(string) error {
		return func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Chmod(path, info.Mode().Perm()^bit)
		}
	}
	away := func(path string) error { return os.Rename(path, aside) }
	back := func(path string) error {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return os.Rename(aside, path)
	}
	in := func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }
	return []change{
		{name: "made", do: in, undo: os.Remove, absent: true},
		{name: "written in its place, of the same length", file: true, undo: nothing, do: func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("x"), 0)
			return err
		}},
		{name: "longer", file: true, do: func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()+1)
		}, undo: nothing},
		{name: "touched, with its old time", do: func(path string) error {
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			at := unix.NsecToTimespec(info.ModTime().UnixNano())
			return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
		}, undo: nothing},
		{name: "open to others", do: toggle(0o002), undo: toggle(0o002), placed: true},
		{name: "gone", do: away, undo: func(path string) error { return os.Rename(aside, path) }, placed: true},
		{name: "a link to what it was", do: func(path string) error {
			if err := away(path); err != nil {
				return err
			}
			return os.Symlink(aside, path)
		}, undo: back, placed: true},
		{name: "another of the same name", do: func(path string) error {
			if err := away(path); err != nil {
				return err
			}
			return exec.Command("cp", "-a", aside, path).Run()
		}, undo: back, placed: true},
		{name: "a new file in it", folder: true, do: func(path string) error { return in(path + "/new") }, undo: func(path string) error { return os.Remove(path + "/new") }},
	}
}

func (c change) fits(p premise) bool {
	info, err := os.Lstat(p.Path)
	link := err == nil && info.Mode()&fs.ModeSymlink != 0
	switch {
	case err != nil || c.absent:
		_, up := os.Stat(filepath.Dir(p.Path))
		return err != nil && c.absent && up == nil
	case p.Care == placed:
		return c.placed
	case p.Care == listed:
		return c.placed || c.folder
	case link:
		return !c.file && !c.folder && c.name != "open to others"
	}
	return (!c.file || info.Mode().IsRegular()) && (!c.folder || info.IsDir())
}

// Whatever is done to whatever a run goes by, the next run is a whole one.
func TestAnyChangeMakesTheNextRunAWholeOne(t *testing.T) {
	h := newCalmHost(t)
	s, tried := h.record(), map[string]int{}
	for _, p := range s.Premises {
		inside := strings.HasPrefix(p.Path, h.root+"/")
		if p.Path == h.Paths.RunDir || !inside {
			continue
		}
		for _, c := range changes(filepath.Join(t.TempDir(), "aside")) {
			if !c.fits(p) {
				continue
			}
			tried[c.name]++
			must(t, c.do(p.Path))
			if h.looks() {
				t.Errorf("%s (%s) is %s, and the run is no whole one", p.Path, p.Care, c.name)
			}
			must(t, c.undo(p.Path))
			for n, p := range s.Premises {
				seen, err := p.Care.see(p.Path)
				must(t, err)
				s.Premises[n].Seen = seen
			}
			h.leave(s)
			if !h.looks() {
				t.Fatalf("%s (%s) is as it was (%s), and the look does not apply: this test shows nothing", p.Path, p.Care, c.name)
			}
		}
	}
	for _, c := range changes("") {
		if tried[c.name] == 0 {
			t.Errorf("no path is %s", c.name)
		}
	}
}

// The agent's configuration may be a link to where an administrator keeps it: what is
// written there is what a run goes by.
func TestAConfigurationBehindALinkIsAPremise(t *testing.T) {
	h := newCalmHost(t)
	h.c.Spec.Proxy = ""
	h.save()
	kept := filepath.Join(t.TempDir(), "teleport.yaml")
	writeFile(t, kept, "teleport: {proxy_server: '"+h.w.url+"'}\n")
	must(t, os.Remove(h.Paths.AgentConfig))
	must(t, os.Symlink(kept, h.Paths.AgentConfig))
	h.run()
	if !h.looks() {
		t.Fatal("the look does not apply: this test shows nothing")
	}
	writeFile(t, kept, "teleport: {proxy_server: 'https://other.example.com'}\n")
	if h.looks() {
		t.Error("the agent has another proxy, and the run is no whole one")
	}
}

func TestARecordInDoubtIsNotGoneBy(t *testing.T) {
	h := newCalmHost(t)
	good := h.record()
	ago := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(-d).Unix(), 10) }
	seen := func(path string) func(*settled) {
		return func(s *settled) {
			n := slices.IndexFunc(s.Premises, func(p premise) bool { return p.Path == path })
			s.Premises = slices.Clone(s.Premises)
			s.Premises[n].Seen += "x"
		}
	}
	for name, change := range map[string]func(*settled){
		"an hour old":          func(s *settled) { s.At = ago(time.Hour) },
		"from the future":      func(s *settled) { s.At = ago(-time.Minute) },
		"without a time":       func(s *settled) { s.At = "" },
		"of another form":      func(s *settled) { s.Form += "0" },
		"of other arguments":   func(s *settled) { s.Given += "0" },
		"of another folder":    func(s *settled) { s.RunDir += "0" },
		"of another boot":      seen("boot"),
		"of another program":   seen("/proc/self/exe"),
		"of another host name": seen("hostname"),
		"without a premise":    func(s *settled) { s.Premises = nil },
		"of a process that is gone": func(s *settled) {
			s.Premises = append(slices.Clone(s.Premises), premise{"4194305", process, "1 /bin/sh"})
		},
		"of another answer": func(s *settled) { s.Answer += "0" },
	} {
		s := good
		change(&s)
		h.leave(s)
		if h.looks() {
			t.Errorf("a record %s is gone by", name)
		}
	}
	whole := string(good.encode())
	for n := range len(whole) {
		if _, ok := decodeSettled(whole[:n]); ok {
			t.Fatalf("a record of which %d of %d bytes are there is gone by", n, len(whole))
		}
	}
	h.leave(good)
	for name, tamper := range map[string][2]func() error{
		"that others may write": {func() error { return os.Chmod(h.Paths.Settled(), 0o622) }, func() error { return os.Chmod(h.Paths.Settled(), 0o600) }},
		"that is a link": {func() error {
			return os.Rename(h.Paths.Settled(), h.root+"/aside")
		}, func() error { return os.Rename(h.root+"/aside", h.Paths.Settled()) }},
	} {
		must(t, tamper[0]())
		if name == "that is a link" {
			must(t, os.Symlink(h.root+"/aside", h.Paths.Settled()))
		}
		if h.looks() {
			t.Errorf("a record %s is gone by", name)
		}
		must(t, tamper[1]())
	}
	t.Run("of another environment", func(t *testing.T) {
		t.Setenv("TELEPORT_UPDATE_DATA_DIR", "/elsewhere")
		if h.looks() {
			t.Error("it is gone by")
		}
	})
	t.Setenv("INVOCATION_ID", "another run of the unit")
	if !h.looks() {
		t.Error("the record as it was is not gone by: this test shows nothing")
	}
}

func TestAnotherAnswerOrAHeldLockMakesTheRunAWholeOne(t *testing.T) {
	h := newCalmHost(t)
	was, err := os.ReadFile(h.Paths.LastAnswer())
	must(t, err)
	for name, change := range map[string]func(*world){
		"another version":    func(w *world) { w.wants.Version = "1.1.0" },
		"no version":         func(w *world) { w.wants.Version = "" },
		"another jitter":     func(w *world) { w.jitter = 7 },
		"the word to update": func(w *world) { w.wants.AutoUpdate = true },
		"an unknown group":   func(w *world) { w.wants.GroupUnknown = true },
		"an error":           func(w *world) { w.status = 500 },
	} {
		before, jitter, status := h.w.wants, h.w.jitter, h.w.status
		change(h.w)
		if h.looks() {
			t.Errorf("find answers %s, and the run is no whole one", name)
		}
		h.w.wants, h.w.jitter, h.w.status = before, jitter, status
	}
	unlock, err := state.Lock(t.Context(), h.Paths.UpdateLock(), 0)
	must(t, err)
	if h.looks() {
		t.Error("another updater is at work, and the run is no whole one")
	}
	unlock()
	if now, err := os.ReadFile(h.Paths.LastAnswer()); err != nil || !bytes.Equal(now, was) {
		t.Errorf("a look that does not apply wrote find.json: %s, %v", now, err)
	}
	if !h.looks() {
		t.Error("with the answer as it was the look does not apply: this test shows nothing")
	}
}

func TestARunWithMoreToSayLeavesNoRecord(t *testing.T) {
	for name, change := range map[string]func(h *calmHost){
		"a repair":           func(h *calmHost) { must(h.T, os.Remove(h.Paths.Unit())) },
		"a warning":          func(h *calmHost) { writeFile(h.T, filepath.Join(h.Paths.DataDir, "host_uuid"), "none") },
		"an old version":     func(h *calmHost) { writeFile(h.T, filepath.Join(h.Paths.Versions(), "0.9.0", "sha256"), "x") },
		"another version":    func(h *calmHost) { h.w.wants.Version = "1.1.0" },
		"find fails":         func(h *calmHost) { h.w.status = 500 },
		"a person's command": func(h *calmHost) { h.Scheduled = false; must(h.T, os.Remove(h.Paths.Settled())) },
		"a change meanwhile": func(h *calmHost) {
			h.Now = func() time.Time {
				must(h.T, os.Chmod(h.Paths.Unit(), 0o600)) // it has been looked at by then
				return time.Now()
			}
		},
		"metrics to be written": func(h *calmHost) { h.c.Spec.TextfileDir = h.root; h.save(); must(h.T, os.Remove(h.Paths.Settled())) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newCalmHost(t)
			change(h)
			_ = h.Update(t.Context(), UpdateOptions{})
			h.Settle(t.Context(), "update")
			if s, ok := loadSettled(h.Paths.Settled()); ok {
				t.Errorf("there is a record: %q", s.Reason)
			}
		})
	}
}

// Where systemd runs, the process that serves is a premise.
func TestOnlyAnAgentThatIsWellIsGoneBy(t *testing.T) {
	h := newCalmHost(t)
	for name, tc := range map[string]struct {
		change     func(*systemd.Unit, *string)
		conditions []Condition
		ok         bool
	}{
		"well":              {ok: true},
		"stopped":           {change: func(u *systemd.Unit, _ *string) { u.ActiveState, u.SubState = "inactive", "dead" }},
		"between two":       {change: func(u *systemd.Unit, e *string) { *e = "" }},
		"reloading":         {change: func(u *systemd.Unit, _ *string) { u.ActiveState = "reloading" }},
		"to be restarted":   {conditions: []Condition{{Type: RestartPending}}},
		"not yet proven":    {conditions: []Condition{{Type: Unproven}}},
		"of a masked timer": {conditions: []Condition{{Type: TimerOff}}},
	} {
		h.Connect = sightOf(h.Installer, tc.change)
		premises, ok := h.servers(t.Context(), Report{Conditions: tc.conditions})
		if ok != tc.ok || ok && (len(premises) != 1 || premises[0].Care != process || premises[0].Path != "4711") {
			t.Errorf("an agent that is %s: %v, %+v", name, ok, premises)
		}
	}
}

func TestAnAgentThatWasStartedAgainIsAnotherOne(t *testing.T) {
	agent := exec.Command("sleep", "60")
	must(t, agent.Start())
	p := procfs.Host().Process(agent.Process.Pid)
	seen := premise{strconv.Itoa(p.PID), process, seenOf(*p)}
	if !seen.holds() {
		t.Error("the process is not the same")
	}
	must(t, agent.Process.Kill())
	_ = agent.Wait()
	if seen.holds() {
		t.Error("a process that is gone is the same")
	}
	if p := (premise{strconv.Itoa(os.Getpid()), process, seen.Seen}); p.holds() {
		t.Error("another process of that PID is the same")
	}
}

// exempt are the paths that a run looks at and that are no premises, with the reason why
// a look that is up to an hour old will do. A path that ends with a slash is all below it.
var exempt = map[string]string{
	"VERSIONS/find.json":            "a cache, which nothing is decided by and each run writes",
	"VERSIONS/find.json.new":        "the same",
	"VERSIONS/update.lock":          "taken by the quick look, too",
	"VERSIONS/fetch.lock":           "looked at for old versions, and with those there is no record",
	"RUN/":                          "written by the runs themselves; what they decide by is ticks.json, a premise",
	"UNITS/multi-user.target.wants": "searched for temporary files alone",
	"UNITS/timers.target.wants":     "searched for temporary files alone",
	"/etc/ssl/":                     "read whenever a server is verified, as by the quick look",
	"/etc/localtime":                "of the test's own process, as what follows",
	"/etc/hosts":                    "of each question to find, as what follows", "/etc/resolv.conf": "", "/etc/nsswitch.conf": "",
	"/tmp": "", "/dev/null": "",
}

const roleOfARun = "TEST_CALM_HOST"

// TestEveryPathOfARunIsAPremise traces a whole run that finds nothing to do.
func TestEveryPathOfARunIsAPremise(t *testing.T) {
	if root := os.Getenv(roleOfARun); root != "" {
		h := &calmHost{shelf: &shelf{T: t, Installer: testInstaller(t)}, w: newWorld(t), root: root}
		h.Installer = New(state.Paths{DataDir: root + "/data", LinkDir: root + "/bin", UnitDir: root + "/units", AgentConfig: root + "/teleport.yaml", ProgramsDir: root + "/programs"}, slog.New(slog.DiscardHandler))
		h.ready()
		fmt.Fprintln(os.Stderr, "begin")
		_, _ = os.Stat(root + "/begin")
		h.run()
		_, _ = os.Stat(root + "/end")
		return
	}
	h := newCalmHost(t)
	must(t, os.Remove(h.Paths.Settled()))
	looked, within := map[string]bool{}, false
	self, err := os.Executable()
	must(t, err)
	result, err := trace.Run(t.Context(), trace.Command{
		Argv: []string{self, "-test.run=^TestEveryPathOfARunIsAPremise$"}, Env: append(os.Environ(), roleOfARun+"="+h.root), Lookups: true,
	}, func(c trace.Call) trace.Action {
		within = (within || c.Path == h.root+"/begin") && c.Path != h.root+"/end"
		if within && !c.Exit {
			looked[c.Path] = true
		}
		return trace.GoOn()
	})
	must(t, err)
	premises := map[string]bool{h.root + "/begin": true}
	for _, p := range h.record().Premises {
		premises[p.Path] = p.Care != placed || !strings.HasPrefix(p.Path, h.root+"/")
	}
	premises[h.Paths.DataDir] = true // whose temporary files alone are searched
	if len(looked) < 40 {
		t.Fatalf("the run looked at %d paths: this test shows nothing\n%+v", len(looked), result)
	}
	replace := strings.NewReplacer(h.Paths.Versions(), "VERSIONS", h.Paths.RunDir, "RUN", h.Paths.UnitDir, "UNITS")
	for path := range looked {
		at := path
		for !premises[at] && !host.Exists(at) {
			at = filepath.Dir(at) // a name that comes is seen of its folder
		}
		if premises[at] {
			continue
		}
		if name := replace.Replace(path); !exempted(name) {
			t.Errorf("the run looks at %s, which is neither a premise nor exempt", name)
		}
	}
}

func exempted(name string) bool {
	for of := range exempt {
		if name == of || strings.HasSuffix(of, "/") && strings.HasPrefix(name+"/", of) {
			return true
		}
	}
	return false
}
