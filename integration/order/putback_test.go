//go:build hosts

package order

import (
	"os"
	"path/filepath"
	"testing"
)

// stageWithAFile is a host on 1.1.0, where 2.0.0 is wanted, with a file under the
// name of a program that only 2.0.0 brings.
func stageWithAFile(t *testing.T) *staged {
	t.Helper()
	s := stage(t, "")
	s.wants("1.1.0")
	s.must("enable")
	if err := os.WriteFile(filepath.Join(s.h.links(), "tbot"), []byte("mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.wants("2.0.0")
	return s
}

// hasItsFile complains unless the file is back, and its copy gone.
func (s *staged) hasItsFile() {
	s.Helper()
	if data, err := os.ReadFile(filepath.Join(s.h.links(), "tbot")); err != nil || string(data) != "mine" {
		s.Errorf("tbot holds %q, %v; want what stood there first", data, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.h.versions(), "original", "tbot-*")); len(left) > 0 {
		s.Errorf("the copies %q are left", left)
	}
}

// A file stood under the name of a program that only 2.0.0 brings.
func TestOrderOfPuttingAFileBack(t *testing.T) {
	for name, tc := range map[string]struct {
		cut  string
		args []string
		want []string
	}{
		"whole": {args: args("rollback"), want: []string{"journal: begun",
			"link fdpass-teleport goes", "link tbot", "link tctl", "link tsh", "link teleport", "unit",
			"journal: switched", "journal: proven", "drop original/tbot-*", "put original/before.json", "configuration", "journal removed"}},
		"cut off at first": {cut: "link tctl", args: args("recover"), want: []string{"journal: rolling_back",
			"link fdpass-teleport", "link tbot", "link tctl", "journal: restored", "configuration", "journal removed"}},
		"cut off when proven": {cut: "journal: proven", args: args("recover"), want: []string{
			"drop original/tbot-*", "put original/before.json", "configuration", "journal removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := stageWithAFile(t)
			s.must("update")
			if tc.cut != "" {
				s.cutAt(tc.cut, "rollback")
			}
			s.does(tc.args, tc.want...)
			if tc.cut == "link tctl" {
				s.must("rollback")
			}
			s.hasItsFile()
		})
	}
}

func TestAFileIsPutBackWhereverAKillCuts(t *testing.T) {
	for _, event := range []string{
		"put original/tbot-*", "link tbot", "journal: switched", "journal: proven", "put original/before.json", "configuration",
	} {
		t.Run("update, "+event, func(t *testing.T) {
			t.Parallel()
			s := stageWithAFile(t)
			s.cutAt(event, "update")
			s.must("recover")
			s.backToTheFile()
			s.hasItsFile()
		})
	}
	for _, event := range []string{
		"journal: begun", "link tbot", "journal: switched", "journal: proven", "drop original/tbot-*", "put original/before.json", "configuration",
	} {
		t.Run("rollback, "+event, func(t *testing.T) {
			t.Parallel()
			s := stageWithAFile(t)
			s.must("update")
			s.cutAt(event, "rollback")
			s.must("recover")
			s.must("update", "--now")
			s.backToTheFile()
			s.hasItsFile()
		})
	}
}

// backToTheFile goes back to the version without the program if the other one is active.
func (s *staged) backToTheFile() {
	if _, err := os.Readlink(filepath.Join(s.h.links(), "tbot")); err == nil {
		s.must("rollback")
	}
}
