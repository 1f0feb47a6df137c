package survey

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A service that was started by the file which a link has replaced is one of those that a restart brings to the active
// version. One that has a program of its own, or sees other files, is not.
func TestACompanionFromBeforeTheFirstEnableIsFound(t *testing.T) {
	const unit = "0::/system.slice/tbot.service\n"
	for name, tc := range map[string]struct {
		cgroup, exe, command string
		container            bool
		found                bool
	}{
		"the file that the link replaced":     {unit, "LINK (deleted)", "LINK start", false, true},
		"that file, under another name":       {unit, "LINK (deleted)", "bot start", false, true},
		"a package's program, by its link":    {unit, "OTHER", "LINK start", false, true},
		"a package's program, and it is gone": {unit, "/opt/package/tbot (deleted)", "LINK start", false, true},
		"an instance":                         {"0::/system.slice/system-tbot.slice/tbot@ci.service\n", "LINK (deleted)", "LINK start", false, true},
		"what the link leads to":              {unit, "LINKED", "LINK start", false, false},
		"a program of its own":                {unit, "OTHER", "OTHER start", false, false},
		"a link that is not the updater's":    {unit, "OTHER", "LINKDIR/kubectl start", false, false},
		"the agent's own":                     {"0::/system.slice/teleport.service\n", "LINK (deleted)", "LINK start", false, false},
		"in a session":                        {"0::/user.slice/user-0.slice/session-1.scope\n", "LINK (deleted)", "LINK start", false, false},
		"a service of a user, as docs say":    {"0::/user.slice/user-0.slice/user@0.service/app.slice/tbot.service\n", "LINK (deleted)", "LINK start", false, false},
		"in a container":                      {unit, "LINK", "LINK start", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, root := surveyOf(t, counted{reads: map[string]int{}})
			s.from.Paths.LinkDir = filepath.Join(root, "bin")
			linked, other := filepath.Join(s.from.Paths.Versions(), active.Version, "bin", "tbot"), filepath.Join(root, "srv", "tbot")
			link, foreign := filepath.Join(s.from.Paths.LinkDir, "tbot"), filepath.Join(s.from.Paths.LinkDir, "kubectl")
			fill := strings.NewReplacer("LINKED", linked, "LINKDIR", s.from.Paths.LinkDir, "LINK", link, "OTHER", other).Replace
			process := filepath.Join(s.from.Processes.Proc, "48")
			for path, text := range map[string]string{
				linked: "program", other: "program", filepath.Join(root, "image", link): "program",
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
			err := errors.Join(os.MkdirAll(s.from.Paths.LinkDir, 0o755), os.Symlink(linked, link), os.Symlink(other, foreign),
				os.Symlink(fill(tc.exe), filepath.Join(process, "exe")), os.Symlink(sees, filepath.Join(process, "root")))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Companions()
			found := slices.ContainsFunc(got, func(c Companion) bool { return c.PID == 48 && c.Link == link })
			if err != nil || found != tc.found {
				t.Errorf("found are %v, %v; want it: %v", got, err, tc.found)
			}
		})
	}
}
