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
			s := testStore(t)
			tree := publish(t, s, oss("1.0.0"))
			s.ProcDir = fakeProc(t)
			links := t.TempDir()
			tc.use(s, links)
			err := s.Discard(tree, []string{links})
			if _, here, _ := s.Lookup(oss("1.0.0")); here == tc.gone || tc.gone != (err == nil) {
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
			s := testStore(t)
			publish(t, s, oss("1.0.0"))
			s.ProcDir = fakeProc(t)
			links := t.TempDir()
			tc.use(s, links)
			if got, err := s.InUse([]string{links}); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
	t.Run("nobody can tell", func(t *testing.T) {
		s := testStore(t)
		s.ProcDir = "/nonexistent"
		if used, err := s.InUse(nil); err != nil || len(used) > 0 {
			t.Errorf("without a version: %q, %v; want nothing", used, err)
		}
		publish(t, s, oss("1.0.0"))
		if _, err := s.InUse(nil); err == nil {
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
			s := testStore(t)
			publish(t, s, oss("1.0.0"))
			s.ProcDir = fakeProc(t)
			if exe := tc.exe(s); exe != "" {
				must(t, os.Symlink(exe, s.ProcDir+"/7/exe"))
			}
			entries, err := s.List()
			must(t, err)
			got, err := s.running(entries)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("running: %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
