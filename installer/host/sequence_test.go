package host

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/integration/trace"
)

// The units that stand there when one is put back are a file, a link, and what is to go.
var unitsBack = map[string]struct {
	unit state.UnitFile
	want []string
}{
	"a file that is there: the run that wrote it may have been killed before its sync": {
		state.UnitFile{Path: "file", Regular: true, Content: []byte("old"), Mode: 0o644}, []string{"fsync file", "fsync ."},
	},
	"a link that is there": {state.UnitFile{Path: "link", Target: "file"}, []string{"fsync ."}},
	"a file": {
		state.UnitFile{Path: "file", Regular: true, Content: []byte("other"), Mode: 0o644},
		[]string{"openat .tmp-file", "write .tmp-file", "fchmod .tmp-file", "fsync .tmp-file", "rename .tmp-file file", "fsync ."},
	},
	"a link": {state.UnitFile{Path: "file", Target: "link"}, []string{"symlinkat .tmp-file", "rename .tmp-file file", "fsync ."}},
	"none":   {state.UnitFile{Path: "file"}, []string{"unlinkat file", "fsync ."}},
}

const unitBackVariable = "HOST_TEST_UNIT_BACK"

func TestMain(m *testing.M) {
	name, set := os.LookupEnv(unitBackVariable)
	if !set {
		os.Exit(m.Run())
	}
	if err := RestoreUnit(unitsBack[name].unit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func TestAUnitIsPutBackInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	random := regexp.MustCompile(`(\.tmp-\w+)-[A-Z2-7]{8}`)
	for name, b := range unitsBack {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(dir+"/file", []byte("old"), 0o644))
			must(t, os.Symlink("file", dir+"/link"))
			got, result, err := trace.Changes(t.Context(), trace.Command{
				Argv: []string{"/proc/self/exe"}, Dir: dir, Env: append(os.Environ(), unitBackVariable+"="+name),
			}, dir)
			if err != nil || result.ExitCode != 0 {
				t.Fatalf("%v, exit code %d: %s", err, result.ExitCode, result.Stderr)
			}
			for i := range got {
				got[i] = random.ReplaceAllString(got[i], "$1")
			}
			if !slices.Equal(got, b.want) {
				t.Errorf("the calls are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(b.want, "\n\t"))
			}
		})
	}
}
