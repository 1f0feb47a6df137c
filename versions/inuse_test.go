package versions

import (
	"os"
	"slices"
	"testing"
)

func TestDiscardLeavesWhatIsInUse(t *testing.T) {
	for name, tc := range map[string]struct {
		use  func(s *Store, links string)
		gone bool
	}{
		"used by nothing":   {func(*Store, string) {}, true},
		"a link leads into": {func(s *Store, links string) { must(t, os.Symlink(s.Dir+"/1.0.0/bin/tsh", links+"/tsh")) }, false},
		"a process runs from": {func(s *Store, _ string) {
			must(t, os.Symlink(s.Dir+"/1.0.0/bin/teleport", s.ProcDir+"/7/exe"))
		}, false},
		"nobody can tell": {func(s *Store, _ string) { s.ProcDir = "/nonexistent" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := testFetcher(t, nil)
			tree := publish(t, f, oss("1.0.0"))
			f.Store.ProcDir = fakeProc(t)
			links := t.TempDir()
			tc.use(f.Store, links)
			err := f.Store.Discard(tree, []string{links})
			if _, here, _ := f.Store.Lookup(oss("1.0.0")); here == tc.gone || tc.gone != (err == nil) {
				t.Errorf("still here: %v, error %v", here, err)
			}
		})
	}
}

// fakeProc is a proc with one process, 7, whose exe is yet to be made.
func fakeProc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/7", 0o755))
	must(t, os.Mkdir(dir+"/self", 0o755))
	return dir
}

func TestWhatIsInUseIsLinkedOrRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		use  func(s *Store, links string)
		want []string
	}{
		"nothing": {func(*Store, string) {}, nil},
		"linked and run": {func(s *Store, links string) {
			must(t, os.Symlink(s.Dir+"/1.0.0/bin/tsh", links+"/tsh"))
			must(t, os.Symlink(s.Dir+"/1.0.0/bin/teleport", s.ProcDir+"/7/exe"))
		}, []string{"1.0.0"}},
		"linked": {func(s *Store, links string) { must(t, os.Symlink(s.Dir+"/gone/bin/tsh", links+"/tsh")) }, []string{"gone"}},
		"run":    {func(s *Store, _ string) { must(t, os.Symlink(s.Dir+"/1.0.0/bin/teleport", s.ProcDir+"/7/exe")) }, []string{"1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := testFetcher(t, nil)
			publish(t, f, oss("1.0.0"))
			f.Store.ProcDir = fakeProc(t)
			links := t.TempDir()
			tc.use(f.Store, links)
			if got, err := f.Store.InUse([]string{links}); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
	t.Run("nobody can tell", func(t *testing.T) {
		f, _ := testFetcher(t, nil)
		f.Store.ProcDir = "/nonexistent"
		if used, err := f.Store.InUse(nil); err != nil || len(used) > 0 {
			t.Errorf("without a version: %q, %v; want nothing", used, err)
		}
		publish(t, f, oss("1.0.0"))
		if _, err := f.Store.InUse(nil); err == nil {
			t.Error("no error; what runs is not known")
		}
	})
}

func TestProcessesAreFoundByWhatTheyExecute(t *testing.T) {
	for name, tc := range map[string]struct {
		exe  func(s *Store) string
		want []string
	}{
		"a program of a version":    {func(s *Store) string { return s.Dir + "/1.0.0/bin/teleport" }, []string{"1.0.0"}},
		"one whose file is gone":    {func(s *Store) string { return s.Dir + "/1.0.0/bin/old (deleted)" }, []string{"1.0.0"}},
		"one whose folder is gone":  {func(s *Store) string { return s.Dir + "/0.9.0/bin/old (deleted)" }, []string{"0.9.0"}},
		"another program":           {func(s *Store) string { return "/bin/sh" }, nil},
		"a folder beside the store": {func(s *Store) string { return s.Dir + "-old/1.0.0/bin/teleport" }, nil},
		"a thread of the kernel":    {func(s *Store) string { return "" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := testFetcher(t, nil)
			publish(t, f, oss("1.0.0"))
			f.Store.ProcDir = fakeProc(t)
			if exe := tc.exe(f.Store); exe != "" {
				must(t, os.Symlink(exe, f.Store.ProcDir+"/7/exe"))
			}
			entries, err := f.Store.List()
			must(t, err)
			got, err := f.Store.running(entries)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("running: %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
