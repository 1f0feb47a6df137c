package installer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

func TestProgramsAreTriedInTheNameOfNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	names := []string{"teleport", "tsh"}
	for name, tc := range map[string]struct {
		chmod string // below the test's folder; empty: nothing
		to    os.FileMode
		want  []string
	}{
		"all is open":                    {},
		"the folder of programs":         {"opt", 0o700, names},
		"a version":                      {"opt/1.0.0/bin", 0o750, names},
		"one program":                    {"opt/1.0.0/bin/tsh", 0o744, []string{"tsh"}},
		"not even the links are theirs":  {"links", 0o700, nil},
		"a folder above both is closed":  {".", 0o700, nil},
		"only the data folder is closed": {"data", 0o700, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, d := range []string{"opt/1.0.0/bin", "links", "data"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range names {
				program := filepath.Join(dir, "opt/1.0.0/bin", n)
				if err := errors.Join(os.WriteFile(program, nil, 0o755), os.Chmod(program, 0o755), os.Symlink(program, filepath.Join(dir, "links", n))); err != nil {
					t.Fatal(err)
				}
			}
			if tc.chmod != "" {
				if err := os.Chmod(filepath.Join(dir, tc.chmod), tc.to); err != nil {
					t.Fatal(err)
				}
			}
			got, err := closedToOthers(t.Context(), filepath.Join(dir, "links"), names)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("closed are %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestAFolderOfProgramsIsRefusedThatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		has, asked, says string
	}{
		"none is asked for":         {"/srv/programs", "", ""},
		"the one that the host has": {"/srv/programs", "/srv/programs/", ""},
		"another one":               {"/srv/programs", "/srv/others", "are in /srv/programs, and stay there"},
		"in the data folder":        {"/var/lib/teleport/programs", "/var/lib/teleport/programs", "closed to others"},
		"the store itself":          {"/var/lib/teleport/versions", "/var/lib/teleport/versions", "closed to others"},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			i.Machine.Host.Paths = state.Paths{DataDir: "/var/lib/teleport", ProgramsDir: tc.has}
			err := checkPrograms(i.Machine.Host.Paths, tc.asked)
			if _, refused := errors.AsType[*failure.RefusedError](err); refused != (tc.says != "") || refused && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v; want %q", err, tc.says)
			}
		})
	}
	for _, dir := range []string{"relative", "/", "/a/../b", "/opt/teleport", "/opt/teleport/system", "/a/"} {
		if state.CheckProgramsDir(dir) == nil {
			t.Errorf("%s is accepted", dir)
		}
	}
	if err := state.CheckProgramsDir("/opt/teleport-update"); err != nil {
		t.Error(err)
	}
}
