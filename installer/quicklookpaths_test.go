package installer

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/integration/trace"
)

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
