package survey

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An agent by the linked program changes with the link, whatever its unit is called. One by a program of its own does not,
// and neither does what is no agent, or sees other files.
func TestAnAgentOfAnotherUnitIsFoundByItsProgram(t *testing.T) {
	const unit = "0::/system.slice/teleport-node.service\n"
	for name, tc := range map[string]struct {
		cgroup, exe, command string
		container            bool
		found                bool
	}{
		"by the link":               {unit, "LINKED", "/usr/bin/x start", false, true},
		"an instance":               {"0::/system.slice/system-teleport.slice/teleport@prod.service\n", "LINKED", "LINK start -c /etc/teleport/prod.yaml", false, true},
		"from before a change":      {unit, "STORE/bin/teleport", "teleport start", false, true},
		"by a program that is gone": {unit, "/usr/local/bin/teleport (deleted)", "LINK start", false, true},
		"the agent's own":           {"0::/system.slice/teleport.service\n", "LINKED", "LINK start", false, false},
		"by a program of its own":   {unit, "OTHER", "/srv/bin/teleport start", false, false},
		"no start":                  {unit, "LINKED", "LINK debug", false, false},
		"another program":           {unit, "STORE/bin/tbot", "LINKDIR/tbot start", false, false},
		"in a session":              {"0::/user.slice/user-0.slice/session-1.scope\n", "LINKED", "LINK start", false, false},
		"in a container":            {unit, "LINKED", "LINK start", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, root := surveyOf(t, counted{reads: map[string]int{}})
			s.from.Paths.LinkDir = filepath.Join(root, "bin")
			linked, other := filepath.Join(root, "opt", "teleport"), filepath.Join(root, "srv", "teleport")
			link := filepath.Join(s.from.Paths.LinkDir, "teleport")
			fill := strings.NewReplacer("LINKED", linked, "LINKDIR", s.from.Paths.LinkDir, "LINK", link, "OTHER", other, "STORE",
				filepath.Join(s.from.Paths.Versions(), active.Version)).Replace
			process := filepath.Join(s.from.Processes.Proc, "48")
			for path, text := range map[string]string{
				linked: "program", other: "program", filepath.Join(root, "image", s.from.Paths.LinkDir, "teleport"): "program",
				filepath.Join(process, "cgroup"): tc.cgroup, filepath.Join(process, "environ"): "",
				filepath.Join(process, "cmdline"): strings.ReplaceAll(fill(tc.command), " ", "\x00") + "\x00",
			} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			sees := "/"
			if tc.container {
				sees = filepath.Join(root, "image")
			}
			err := errors.Join(os.MkdirAll(s.from.Paths.LinkDir, 0o755), os.Symlink(linked, link), os.Symlink(fill(tc.exe), filepath.Join(process, "exe")),
				os.Symlink(sees, filepath.Join(process, "root")))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.OtherAgents()
			if found := slices.ContainsFunc(got, func(o OtherAgent) bool { return o.PID == 48 }); err != nil || found != tc.found {
				t.Errorf("found are %v, %v; want it: %v", got, err, tc.found)
			}
		})
	}
}

// Nobody knows what an agent of another unit executes if it may not be looked at.
func TestAnAgentOfAnotherUnitMayBeHidden(t *testing.T) {
	for program, want := range map[string]bool{"teleport": true, "tbot": false} {
		s, _ := surveyOf(t, counted{reads: map[string]int{}})
		process := filepath.Join(s.from.Processes.Proc, "48")
		err := errors.Join(os.MkdirAll(process, 0o755), os.WriteFile(filepath.Join(process, "cgroup"), []byte("0::/system.slice/node.service\n"), 0o600),
			os.WriteFile(filepath.Join(process, "comm"), []byte(program+"\n"), 0o600), os.Symlink(filepath.Join(s.from.Processes.Proc, "48", "exe"), filepath.Join(process, "exe")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.OtherAgents(); (err != nil) != want || want && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it ends with %v", program, err)
		}
	}
}
