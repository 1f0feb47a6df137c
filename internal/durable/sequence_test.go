package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/trace"
)

// The folder that each change is made in: a file f, a file g, a link l, a tree t
// with a file in it, and an empty folder d.
func prepare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"d", "t"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"f", "g", "t/file"} {
		write(t, filepath.Join(dir, f), "old")
	}
	if err := os.Symlink("f", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What makes a change durable is the order of these calls, and nothing that a
// test sees afterwards: the names and contents are the same without any sync, as
// long as the power stays on.
var sequences = map[string]struct {
	change func() error
	want   []string
}{
	"WriteFile syncs the content before it has its name, and the name": {
		func() error { return WriteFile("f", []byte("new"), 0o644) },
		[]string{"openat .tmp-f", "write .tmp-f", "fchmod .tmp-f", "fsync .tmp-f", "rename .tmp-f f", "fsync ."},
	},
	"CloneFile syncs the content and the mode before it has its name, and the name": {
		func() error { return CloneFile("f", "new") },
		[]string{"openat .tmp-new", "write .tmp-new", "fchown .tmp-new", "fchmod .tmp-new", "fsync .tmp-new", "rename .tmp-new new", "fsync ."},
	},
	"RelinkNoSync renames, and leaves the folder to SyncDir": {
		func() error {
			if err := RelinkNoSync("g", "l"); err != nil {
				return err
			}
			return SyncDir(".")
		},
		[]string{"symlinkat .tmp-l", "rename .tmp-l l", "fsync ."},
	},
	"UnlinkNoSync removes, and leaves the folder to SyncDir": {
		func() error { return UnlinkNoSync("l") },
		[]string{"unlinkat l"},
	},
	"Remove syncs the folder after": {
		func() error { return Remove("f") },
		[]string{"unlinkat f", "fsync ."},
	},
	"Remove of what is not there syncs the folder: the one who removed it may not have": {
		func() error { return Remove("missing") },
		[]string{"unlinkat missing", "fsync ."},
	},
	"RemoveAll takes the name away for good before anything in the tree, and that for good, too": {
		func() error { return RemoveAll("t") },
		[]string{"rename t .tmp-t", "fsync .", "unlinkat .tmp-t", "unlinkat .tmp-t/file", "unlinkat .tmp-t", "fsync ."},
	},
	"RemoveTemp syncs the folder after": {
		func() error { return RemoveTemp("t") },
		[]string{"unlinkat t", "unlinkat t/file", "unlinkat t", "fsync ."},
	},
	"RemoveEmpty syncs the folder that it was in": {
		func() error { return RemoveEmpty("d") },
		[]string{"unlinkat d", "fsync ."},
	},
	"RemoveEmpty of what is not empty changes nothing": {
		func() error { return RemoveEmpty("t") },
		[]string{"unlinkat t"},
	},
	"Rename syncs the new folder before the old one": {
		func() error { return Rename("t", "d/new") },
		[]string{"rename t d/new", "fsync d", "fsync ."},
	},
	"Rename within a folder syncs it once": {
		func() error { return Rename("t", "new") },
		[]string{"rename t new", "fsync ."},
	},
	"Replace syncs both folders": {
		func() error { return Replace("f", "d/g") },
		[]string{"rename f d/g", "fsync d", "fsync ."},
	},
	"Exchange syncs both folders": {
		func() error { return Exchange("d", "t") },
		[]string{"rename d t", "fsync ."},
	},
	"MkdirAll syncs each new folder and the name in its parent, the outer one first": {
		func() error { return MkdirAll("d/a/b", 0o755) },
		[]string{
			"mkdirat d/a/b", "mkdirat d/a", "fchmodat d/a", "fsync d/a", "fsync d",
			"mkdirat d/a/b", "fchmodat d/a/b", "fsync d/a/b", "fsync d/a",
		},
	},
	"LinkFiles syncs the names and the folder's own": {
		func() error { return LinkFiles("t", "new") },
		[]string{"mkdirat new", "fchownat new", "fchmodat new", "linkat t/file new/file", "fsync new", "fsync ."},
	},
}

const changeVariable = "DURABLE_TEST_CHANGE"

func TestMain(m *testing.M) {
	if name := os.Getenv(changeVariable); name != "" {
		if err := sequences[name].change(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var random = regexp.MustCompile(`(\.tmp-\w+)-[A-Z2-7]{8}`)

func TestEachChangeIsMadeInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range sequences {
		t.Run(name, func(t *testing.T) {
			dir := prepare(t)
			got, result, err := trace.Changes(t.Context(), trace.Command{
				Argv: []string{self}, Dir: dir, Env: append(os.Environ(), changeVariable+"="+name),
			}, dir)
			if err != nil || result.ExitCode != 0 {
				t.Fatalf("%v, exit code %d: %s", err, result.ExitCode, result.Stderr)
			}
			if os.Geteuid() != 0 {
				s.want = slices.DeleteFunc(slices.Clone(s.want), func(c string) bool { return strings.HasPrefix(c, "fchown") })
			}
			for i := range got {
				got[i] = random.ReplaceAllString(got[i], "$1")
			}
			if !slices.Equal(got, s.want) {
				t.Errorf("the calls are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(s.want, "\n\t"))
			}
		})
	}
}
