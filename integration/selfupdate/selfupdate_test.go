//go:build hosts

package selfupdate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// fixedCopy is what the timer and the recovery run.
const fixedCopy = "/var/lib/teleport/updater/teleport-update"

// stampedUpdater is this module's updater, built as that version.
func (s *scene) stampedUpdater(v string) string {
	s.T.Helper()
	return s.Program(host.Program{Name: "teleport-update-" + v, Package: "./cmd/teleport-update", Version: v})
}

// otherUpdater is another program named teleport-update, of some module, that
// notes that it was run and then does what the body says.
func (s *scene) otherUpdater(module, v, body string) string {
	s.T.Helper()
	dir := s.T.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module " + module + "\n\ngo 1.26\n",
		"main.go": "package main\n\nimport (\"os\"; \"time\")\n\nvar _ = time.Now\n\nfunc main() {\n" +
			"\tos.WriteFile(\"" + ranFile + "\", nil, 0o600)\n\t" + body + "\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			s.T.Fatal(err)
		}
	}
	return s.Program(host.Program{Name: filepath.Join(dir, "teleport-update"), Package: ".", Version: v, Module: dir})
}

// carries builds a release that brings an updater.
func (s *scene) carries(v, updater string) {
	s.T.Helper()
	s.Release(release.Spec{Version: v, Files: []release.File{{Name: "teleport-update", Path: updater}}})
}

// hasContentOf tells whether a file of the host has the content of one outside.
func (s *scene) hasContentOf(inside, outside string) bool {
	s.T.Helper()
	data, err := os.ReadFile(outside)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Read(inside) == string(data)
}

const (
	ourModule   = "teleport-update"
	theirModule = "github.com/gravitational/teleport"
	ranFile     = "/var/log/other-updater-ran"
)

// The whole story on one host: whatever updater the active version carries, the
// next update comes. Each release is switched to from the one before it.
func TestTheActiveVersionsUpdaterIsRunIfItIsNewer(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]host.Options{"without systemd": {Plain: true}, "on a booted host": {}} {
		t.Run(name, func(t *testing.T) {
			s := sceneOn(t, o)
			own, newer := s.stampedUpdater("1.0.0"), s.stampedUpdater("2.0.0")
			s.Put(own, updater)
			carriesOn := "failed before it had changed anything; this one carries on newer=2.0.0"
			type step struct {
				carries    string // by the version that is active
				says, runs string
			}
			steps := []step{
				{carries: s.stampedUpdater("0.5.0"), runs: "1.0.0"},
				{carries: s.otherUpdater(ourModule, "2.0.0", "panic(0)"), says: carriesOn, runs: "1.0.0"},
			}
			if o.Plain {
				steps = append(steps,
					step{carries: s.stampedUpdater("1.0.0"), runs: "1.0.0"},
					step{carries: s.otherUpdater(ourModule, "2.0.0", "os.Exit(3)"), says: carriesOn, runs: "1.0.0"},
					step{carries: s.otherUpdater(ourModule, "2.0.0", "os.Exit(0)"), says: carriesOn, runs: "1.0.0"})
			}
			steps = append(steps,
				step{carries: s.otherUpdater(theirModule, "17.0.0", "os.Exit(3)"), runs: "1.0.0"},
				step{carries: newer, says: "giving the command to the active version's newer updater newer=2.0.0 own=1.0.0", runs: "2.0.0"})
			s.Write("/etc/systemd/system/teleport-update.service.d/debug.conf", "[Service]\nEnvironment=TELEPORT_UPDATE_DEBUG=true\n")
			log := ""
			for n, step := range steps {
				v := fmt.Sprintf("1.%d.0", n)
				s.carries(v, step.carries)
				s.Wants(v)
				if n == 0 {
					s.Enable("--health-window", "1s")
					if !o.Plain {
						s.Must("systemctl", "enable", "--now", "teleport")
					}
					continue
				}
				s.Must("rm", "-f", ranFile)
				log = s.updatesBy(o.Plain, v, log, steps[n-1].says, steps[n-1].runs)
			}
			if s.Exists(ranFile) {
				t.Errorf("the foreign updater was run")
			}
			last := steps[len(steps)-1]
			s.Sound("2.0.0")
			s.Wants("2.0.0")
			log = s.updatesBy(o.Plain, "2.0.0", log, last.says, last.runs)
			if n := strings.Count(log, "the release carries another program named teleport-update"); !o.Plain && n != 1 {
				t.Errorf("the foreign updater is mentioned %d times; want 1:\n%s", n, log)
			}
			if !s.hasContentOf(fixedCopy, newer) {
				t.Errorf("the timer goes on with an older updater than the one that switched")
			}
		})
	}
}

// updatesBy makes the host update to v, by the timer where there is one, and tells
// what was logged and who did it. It returns the whole log.
func (s *scene) updatesBy(plain bool, v, before, says, runs string) (log string) {
	s.T.Helper()
	if plain {
		r := s.Try(updater, "--debug", "update")
		if r.Code != 0 {
			s.T.Errorf("update to %s: exit code %d\n%s", v, r.Code, r.Stderr)
		}
		log = r.Stderr
		before = ""
		s.Linked(v)
	} else {
		if code := s.Tick(); code != 0 {
			s.T.Errorf("the tick to %s ends with %d", v, code)
		}
		log = s.Log("")
		s.Serves(v)
	}
	since := strings.TrimPrefix(log, before)
	if !strings.Contains(since, says) || says == "" && strings.Contains(since, "newer updater") {
		s.T.Errorf("update to %s: want %q in:\n%s", v, says, since)
	}
	if !s.hasContentOf(fixedCopy, s.stampedUpdater(runs)) {
		s.T.Errorf("the update to %s was not done by %s", v, runs)
	}
	return log
}

func TestAHangingUpdaterIsGivenUp(t *testing.T) {
	s := newScene(t)
	s.Put(s.stampedUpdater("1.0.0"), updater)
	s.carries("1.0.0", s.otherUpdater(ourModule, "2.0.0", "time.Sleep(time.Hour)"))
	s.Sound("1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.Serves("1.1.0")
	if !strings.Contains(s.Log(""), `this one carries on newer=2.0.0 own=1.0.0 error="it did nothing for 30s"`) {
		t.Errorf("nobody says that it hung:\n%s", s.Log(""))
	}
	if out := s.Try("pgrep", "-f", "versions/1.0.0/bin/teleport-update"); out.Code == 0 {
		t.Errorf("it runs on: %s", out.Stdout)
	}
}

func TestAnUpdaterThatChangedSomethingIsNotRepeated(t *testing.T) {
	s := sceneOn(t, host.Options{Plain: true})
	s.Put(s.stampedUpdater("1.0.0"), updater)
	s.carries("1.0.0", s.otherUpdater(ourModule, "2.0.0",
		`f, _ := os.OpenFile("/var/lib/teleport/versions/updates.yaml", os.O_APPEND|os.O_WRONLY, 0); f.WriteString("extra: 1\n"); f.Close(); panic(0)`))
	s.Sound("1.1.0")
	s.Wants("1.0.0")
	s.Enable()
	s.Wants("1.1.0")
	s.Fails(1, "failed after it had changed something", updater, "update")
	if got := s.Link(linkDir + "/teleport"); got != programs+"/1.0.0/bin/teleport" {
		t.Errorf("the switch was made all the same: %s", got)
	}
}

func TestAnUpdaterThatOthersMayExchangeIsNotRun(t *testing.T) {
	s := sceneOn(t, host.Options{Plain: true})
	s.Put(s.stampedUpdater("1.0.0"), updater)
	s.carries("1.0.0", s.otherUpdater(ourModule, "2.0.0", "os.Exit(0)"))
	s.Wants("1.0.0")
	s.Enable()
	s.Must("chmod", "0777", programs+"/1.0.0/bin/teleport-update")
	if r := s.Try(updater, "update"); r.Code != 0 || !strings.Contains(r.Stderr, "cannot be trusted; this one carries on") || s.Exists(ranFile) {
		t.Errorf("exit code %d, run: %v\n%s", r.Code, s.Exists(ranFile), r.Stderr)
	}
}

// What the newer updater decides holds, and is said once; what rescues and what
// tells of itself is never handed over.
func TestTheNewerUpdatersWordHolds(t *testing.T) {
	s := sceneOn(t, host.Options{Plain: true})
	s.Put(s.stampedUpdater("1.0.0"), updater)
	s.carries("1.0.0", s.stampedUpdater("2.0.0"))
	s.Sound("1.1.0")
	s.Wants("1.0.0")
	s.Enable()
	s.Must(updater, "pin")
	for _, tc := range []struct {
		args   []string
		code   int
		handed bool
		once   string // in both streams together
	}{
		{[]string{"status", "--format", "json"}, 0, true, `"state": "pinned"`},
		{[]string{"verify"}, 0, true, "version 1.0.0: whole"},
		{[]string{"rollback"}, 1, true, "no previous version"},
		{[]string{"update", "--no-such-flag"}, 2, true, "--no-such-flag"},
		{[]string{"update"}, 0, true, "the host is pinned"},
		{[]string{"setup"}, 0, true, "own units are in place"},
		{[]string{"recover"}, 0, false, ""},
		{[]string{"version"}, 0, false, "teleport-update 1.0.0 "},
	} {
		r := s.Try(append([]string{updater, "--debug"}, tc.args...)...)
		out := r.Stdout + r.Stderr
		if r.Code != tc.code || strings.Contains(out, "giving the command") != tc.handed {
			t.Errorf("%v: exit code %d, want %d; handed over is wanted: %v\n%s", tc.args, r.Code, tc.code, tc.handed, out)
		}
		if tc.once != "" && strings.Count(out, tc.once) != 1 {
			t.Errorf("%v: want %q once in:\n%s", tc.args, tc.once, out)
		}
	}

	// One that is run by an older one looks for no other.
	s.Must(updater, "unpin")
	r, err := s.RunCommand(t.Context(), host.Command{Args: []string{updater, "--debug", "update"}, Env: []string{"TELEPORT_UPDATE_SUCCESSOR=1:1"}})
	if err != nil || r.Code != 0 || strings.Contains(r.Stderr, "giving the command") {
		t.Errorf("exit code %d, %v\n%s", r.Code, err, r.Stderr)
	}

	// A signal ends both.
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS, AutoUpdate: true, Jitter: time.Hour})
	p := s.Background(host.Command{Args: []string{updater, "--debug", "update"}})
	host.Wait(t, patience, func() error {
		if _, out := p.Output(); !strings.Contains(out, "waiting a random time") {
			return fmt.Errorf("it does not wait yet: %s", out)
		}
		return nil
	})
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.Ends(p, 1)
	if _, out := p.Output(); strings.Count(out, "while waiting; the agent stays on version 1.0.0") != 1 {
		t.Errorf("the end is not said once:\n%s", out)
	}
	if out := s.Try("pgrep", "-f", "versions/1.0.0/bin/teleport-update"); out.Code == 0 {
		t.Errorf("the newer one runs on: %s", out.Stdout)
	}
}

// Where the updater came as a package, the timer and whoever calls it by its full
// name run the package's program; that one gives every command to the active
// version's if it is newer, and does it all itself where there is none.
func TestThePackagesUpdaterRunsTheActiveVersionsIfItIsNewer(t *testing.T) {
	s := bareScene(t, host.Options{})
	s.Path = scenes.Packaged
	s.AptRepository(scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb"))
	s.Apt("install", "teleport-update")
	newer := s.stampedUpdater("2.0.0")
	s.carries("1.0.0", s.stampedUpdater("0.5.0"))
	s.carries("1.1.0", newer)
	s.Sound("1.2.0")
	s.carries("1.3.0", newer)
	s.Write("/etc/default/teleport-update", "TELEPORT_UPDATE_DEBUG=true\n")
	s.RunsOn("1.0.0", "--health-window", "1s")
	const given = "giving the command to the active version's newer updater newer=2.0.0 own=" + scenes.PackageOld
	linked := linkDir + "/teleport-update"
	log := ""
	to := func(v string, byNewer bool, link string) {
		t.Helper()
		s.Wants(v)
		if code := s.Tick(); code != 0 {
			t.Errorf("the tick to %s ends with %d", v, code)
		}
		s.Serves(v)
		now := s.Log("teleport-update.service")
		if got := strings.Contains(strings.TrimPrefix(now, log), given); got != byNewer {
			t.Errorf("the tick to %s was given to the newer updater: %v; want %v\n%s", v, got, byNewer, strings.TrimPrefix(now, log))
		}
		log = now
		if got := s.Link(linked); got != programs+"/"+link+"/bin/teleport-update" {
			t.Errorf("on %s %s leads to %q", v, linked, got)
		}
		s.UpdaterInstalled(scenes.PackageOld) // no copy, no units of its own
	}
	to("1.1.0", false, "1.1.0")
	to("1.2.0", true, "1.1.0") // a version without one leaves the link as it is
	to("1.3.0", false, "1.3.0")

	// Back to the version without an updater: the newer one does that. After it, the
	// package's works alone, and what people call is still the newer one's.
	r := s.Try(scenes.Packaged, "--debug", "rollback")
	if r.Code != 0 || !strings.Contains(r.Stderr, given) {
		t.Errorf("rollback: exit code %d\n%s", r.Code, r.Stderr)
	}
	s.Serves("1.2.0")
	for _, program := range []string{scenes.Packaged, linked} {
		if r := s.Try(program, "--debug", "verify"); r.Code != 0 || strings.Contains(r.Stderr, "giving the command") {
			t.Errorf("%s verify: exit code %d\n%s%s", program, r.Code, r.Stdout, r.Stderr)
		}
	}
	if got := s.Must(linked, "version"); !strings.HasPrefix(got, "teleport-update 2.0.0 ") {
		t.Errorf("%s is %q", linked, got)
	}
	s.Check(s.Reboot(t.Context()))
	s.Tick() // what is wanted now is held back; a later wish is not
	log = s.Log("teleport-update.service")
	s.Sound("1.4.0")
	to("1.4.0", false, "1.3.0")

	// Without the package, and with it again, the same.
	s.Untouched("the removal of the package", func() { s.Apt("remove", "teleport-update") })
	s.Must(linked, "status", "--format", "json")
	s.Apt("install", "teleport-update")
	s.carries("1.5.0", newer)
	to("1.5.0", false, "1.5.0")
	s.Must(scenes.Packaged, "uninstall")
	if got := s.Link(linked); got != "" {
		t.Errorf("after uninstall %s leads to %s", linked, got)
	}
}
