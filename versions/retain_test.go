package versions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/version"
)

func TestClassify(t *testing.T) {
	complete := func(name, v string, e version.Edition) Entry {
		return Entry{Name: name, Kind: Complete, Release: Release{Version: v, Edition: e}}
	}
	incomplete := func(name, v string, e version.Edition) Entry {
		return Entry{Name: name, Kind: Incomplete, Release: Release{Version: v, Edition: e}, Why: "sha256 is missing"}
	}
	needed := RetainInput{
		Keep:    []Release{{Version: "15.1.1", Edition: version.Enterprise}, {Version: "15.1.0", Edition: version.OSS}, {Version: "15.2.0", Edition: version.Enterprise}, {Version: "14.0.0", Edition: ""}},
		Linked:  []string{"13.0.0", "12.0.0", "odd"},
		Running: []string{"11.0.0", "10.0.0", ".tmp-9.0.0-X"},
	}
	from := func(e Entry, sha256 string) Entry {
		e.Tree.SHA256 = sha256
		return e
	}
	tried := needed
	tried.Failed, tried.FailedSHA256 = Release{Version: "16.0.0", Edition: version.OSS}, "a"
	both := tried
	both.Failed = needed.Keep[0]
	unknown := RetainInput{Failed: tried.Failed, FailedSHA256: "a"}
	for _, tc := range []struct {
		name  string
		in    RetainInput
		entry Entry
		keep  bool
	}{
		{"the version that is tried again, from another tarball", tried, from(complete("16.0.0", "16.0.0", version.OSS), "b"), false},
		{"the version that is tried again, in another edition", tried, from(complete("16.0.0", "16.0.0", version.FIPS), "a"), false},
		{"the version that is tried again, incomplete", tried, from(incomplete("16.0.0", "16.0.0", ""), "a"), false},
		{"another version from that tarball", tried, from(complete("16.1.0", "16.1.0", version.OSS), "a"), false},
		{"the version that is tried again, and active", both, from(complete("15.1.1", "15.1.1", version.Enterprise), "a"), true},
		{"the version that is tried again, when nobody knows what is active", unknown, from(complete("16.0.0", "16.0.0", version.OSS), "a"), true},
		{"the active version", needed, complete("15.1.1", "15.1.1", version.Enterprise), true},
		{"the active version in a folder with its edition", needed, complete("15.1.1_enterprise", "15.1.1", version.Enterprise), true},
		{"the active version in another edition", needed, complete("15.1.1_oss", "15.1.1", version.OSS), false},
		{"the active version, incomplete", needed, incomplete("15.1.1", "15.1.1", ""), true},
		{"the active version in another edition, incomplete", needed, incomplete("15.1.1_oss", "15.1.1", version.OSS), false},
		{"the previous version", needed, complete("15.1.0", "15.1.0", version.OSS), true},
		{"the version that the journal names", needed, complete("15.2.0", "15.2.0", version.Enterprise), true},
		{"a version needed in whatever edition", needed, complete("14.0.0", "14.0.0", version.FIPS), true},
		{"a version that a link leads into", needed, complete("13.0.0", "13.0.0", version.OSS), true},
		{"an incomplete version that a link leads into", needed, incomplete("12.0.0", "12.0.0", ""), true},
		{"a version that a process runs from", needed, complete("11.0.0", "11.0.0", version.OSS), true},
		{"an incomplete version that a process runs from", needed, incomplete("10.0.0", "10.0.0", ""), true},
		{"a complete version that nothing needs", needed, complete("9.0.0", "9.0.0", version.OSS), false},
		{"an incomplete version that nothing needs", needed, incomplete("9.0.0", "9.0.0", ""), false},
		{"a newer version that nothing needs", needed, complete("16.0.0", "16.0.0", version.OSS), false},
		{"what an interrupted removal left", needed, Entry{Name: ".tmp-8.0.0-X", Kind: Leftover}, false},
		{"what an interrupted removal left, still run from", needed, Entry{Name: ".tmp-9.0.0-X", Kind: Leftover}, true},
		{"partial", needed, Entry{Name: "partial", Kind: Reserved}, true},
		{"original", needed, Entry{Name: "original", Kind: Reserved}, true},
		{"a state file", needed, Entry{Name: "updates.yaml", Kind: Foreign}, true},
		{"a link named like a version", needed, Entry{Name: "9.0.0", Kind: Foreign}, true},
		{"an unknown folder", needed, Entry{Name: "system", Kind: Foreign}, true},
		{"an unknown folder that a link leads into", needed, Entry{Name: "odd", Kind: Foreign}, true},
		{"a version, when nobody knows what is active", RetainInput{}, complete("9.0.0", "9.0.0", version.OSS), true},
		{"an incomplete version, when nobody knows what is active", RetainInput{}, incomplete("9.0.0", "9.0.0", ""), true},
		{"a version, when processes alone are known", RetainInput{Running: []string{"11.0.0"}}, complete("9.0.0", "9.0.0", version.OSS), true},
		{"a version, when links alone are known", RetainInput{Linked: []string{"11.0.0"}}, complete("9.0.0", "9.0.0", version.OSS), false},
		{"a leftover, when nobody knows what is active", RetainInput{}, Entry{Name: ".tmp-8.0.0-X", Kind: Leftover}, false},
		{"a kind that does not exist yet", needed, Entry{Name: "9.0.0", Kind: "new"}, true},
	} {
		in := tc.in
		in.Entries = []Entry{tc.entry}
		got := Classify(in)
		if len(got) != 1 || got[0].Keep != tc.keep || got[0].Bare || got[0].Reason == "" {
			t.Errorf("%s: %+v; want keep %v", tc.name, got, tc.keep)
		}
	}
	tried.Entries = []Entry{from(complete("16.0.0", "16.0.0", version.OSS), "a")}
	if got := Classify(tried); !got[0].Keep || !got[0].Bare {
		t.Errorf("the version that is tried again: %+v; want it kept, without its backup", got)
	}
}

func TestAVersionThatIsTriedAgainStaysWithoutItsBackup(t *testing.T) {
	s := testStore(t)
	s.ProcDir = fakeProc(t)
	publish(t, s, oss("1.0.0"))
	tree := publish(t, s, oss("1.1.0"))
	must(t, os.Mkdir(tree.BackupDir(), 0o700))
	must(t, os.WriteFile(filepath.Join(tree.BackupDir(), "sqlite.db"), nil, 0o600))
	needed := Needed{Releases: []Release{oss("1.0.0")}, Failed: tree.Release, FailedSHA256: tree.SHA256}
	for range 2 {
		if names := keptNames(t, s, needed); !slices.Contains(names, "1.1.0") {
			t.Fatalf("the version that is tried again is removed: %v are left", names)
		}
	}
	if _, err := os.Lstat(tree.BackupDir()); !os.IsNotExist(err) {
		t.Errorf("its backup is kept: %v", err)
	}
	must(t, tree.Verify(t.Context()))
}

// keptNames runs Retain and returns what is left of the versions.
func keptNames(t *testing.T, s *Store, needed Needed) []string {
	t.Helper()
	verdicts, err := s.Retain(needed)
	must(t, err)
	entries, err := os.ReadDir(s.Dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, v := range verdicts {
		if v.Keep != slices.Contains(names, v.Entry.Name) {
			t.Errorf("the verdict on %s is keep %v (%s)", v.Entry.Name, v.Keep, v.Reason)
		}
	}
	return names
}

func TestRetainKeepsWhatIsNeededAndRemovesTheRest(t *testing.T) {
	s := testStore(t)
	links, units := t.TempDir(), t.TempDir()
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0"} {
		publish(t, s, oss(v))
	}
	must(t, os.Symlink(s.Dir+"/1.2.0/bin/tsh", links+"/tsh"))
	must(t, os.Symlink("/bin/sh", links+"/sh"))
	must(t, os.WriteFile(links+"/file", nil, 0o755))
	alias := filepath.Join(t.TempDir(), "alias")
	must(t, os.Symlink(s.Dir, alias))
	must(t, os.Symlink(alias+"/1.3.0/etc/systemd/teleport.service", units+"/teleport.service"))

	// Not all of the real proc: one process that even root may not look at
	// would, rightly, keep everything.
	s.ProcDir = t.TempDir()
	watch := func(cmd *exec.Cmd) {
		must(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		pid := strconv.Itoa(cmd.Process.Pid)
		must(t, os.Symlink("/proc/"+pid, filepath.Join(s.ProcDir, pid)))
	}
	// A real process runs from 1.4.0, and another from 1.5.0 though its file
	// lost its name since.
	for _, v := range []string{"1.4.0", "1.5.0"} {
		sleep, err := exec.LookPath("sleep")
		must(t, err)
		data, err := os.ReadFile(sleep)
		must(t, err)
		program := filepath.Join(s.Dir, v, "bin", "sleep")
		must(t, os.WriteFile(program, data, 0o755))
		watch(exec.Command(program, "600"))
		if v == "1.5.0" {
			must(t, os.Remove(program))
		}
	}
	// A process elsewhere runs from a file of 1.6.0 under another path.
	elsewhere := filepath.Join(t.TempDir(), "sleep")
	must(t, os.Rename(filepath.Join(s.Dir, "1.6.0", "bin", "tsh"), elsewhere))
	data, err := os.ReadFile("/bin/sleep")
	must(t, err)
	must(t, os.WriteFile(elsewhere, data, 0o755))
	must(t, os.Link(elsewhere, filepath.Join(s.Dir, "1.6.0", "bin", "tsh")))
	watch(exec.Command(elsewhere, "600"))

	must(t, os.MkdirAll(s.Dir+"/.tmp-0.9.0-ABCDEFGH/bin", 0o755))
	must(t, os.Mkdir(s.Dir+"/0.8.0", 0o755))
	must(t, os.Mkdir(s.Dir+"/mine", 0o755))
	must(t, os.WriteFile(s.Dir+"/updates.yaml", nil, 0o644))

	got := keptNames(t, s, Needed{Releases: []Release{oss("1.0.0"), oss("1.1.0"), {}}, LinkDirs: []string{links, units, "/nonexistent"}})
	want := []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "mine", "partial", "updates.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("left are %q; want %q", got, want)
	}
}

func TestNothingIsRemovedWhenSomethingCannotBeDetermined(t *testing.T) {
	for name, tc := range map[string]func(t *testing.T, s *Store, needed *Needed){
		"no proc": func(t *testing.T, s *Store, _ *Needed) { s.ProcDir = "/nonexistent" },
		"an unreadable entry": func(t *testing.T, s *Store, _ *Needed) {
			s.ProcDir = fakeProc(t)
			must(t, os.Mkdir(s.ProcDir+"/7/exe", 0o755))
		},
		"a file as link folder": func(t *testing.T, s *Store, n *Needed) { n.LinkDirs = []string{"/etc/passwd"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t)
			publish(t, s, oss("1.0.0"))
			publish(t, s, oss("1.1.0"))
			needed := Needed{Releases: []Release{oss("1.1.0")}}
			tc(t, s, &needed)
			_, err := s.Retain(needed)
			if err == nil || !strings.Contains(err.Error(), "nothing was removed") {
				t.Errorf("error %v; want one that says that nothing was removed", err)
			}
			if _, ok, err := s.Lookup(oss("1.0.0")); !ok || err != nil {
				t.Errorf("1.0.0 is gone (%v)", err)
			}
		})
	}
}

// A process that even root may not look at, as one of a sandbox that has capabilities
// which the updater has not.
func TestAHiddenProcessKeepsNothingButWhatItIsCalled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has a capability to give up")
	}
	for name, wanted := range map[string][]string{"chromium": {"1.1.0", "partial"}, "teleport": {"1.0.0", "1.1.0", "partial"}} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t)
			publish(t, s, oss("1.0.0"))
			publish(t, s, oss("1.1.0"))
			program := filepath.Join(t.TempDir(), name)
			data, err := os.ReadFile("/bin/sleep")
			must(t, err)
			must(t, os.WriteFile(program, data, 0o755))
			cmd := exec.Command(program, "600")
			must(t, cmd.Start())
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			pid := strconv.Itoa(cmd.Process.Pid)
			s.ProcDir = t.TempDir()
			must(t, os.Symlink("/proc/"+pid, filepath.Join(s.ProcDir, pid)))

			withoutPtrace(t, func() { _, err = s.Retain(Needed{Releases: []Release{oss("1.1.0")}}) })
			if hidden := name == "teleport"; (err != nil) != hidden || hidden && !strings.Contains(err.Error(), "process "+pid+" calls itself teleport") {
				t.Errorf("error %v", err)
			}
			entries, err := os.ReadDir(s.Dir)
			must(t, err)
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
			}
			if !slices.Equal(left, wanted) {
				t.Errorf("left are %q; want %q", left, wanted)
			}
		})
	}
}

// withoutPtrace runs f on a thread that may not look into processes which have more
// capabilities than itself.
func withoutPtrace(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&header, &data[0])
		for _, set := range []*uint32{&data[0].Effective, &data[0].Permitted} {
			*set &^= 1 << unix.CAP_SYS_PTRACE
		}
		if err == nil {
			err = unix.Capset(&header, &data[0])
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	must(t, <-done)
}

func TestWhatCannotBeRemovedIsNotSaidToBe(t *testing.T) {
	s := testStore(t)
	publish(t, s, oss("1.0.0"))
	publish(t, s, oss("1.1.0"))
	s.ProcDir = fakeProc(t)
	// A name with no room for the temporary one that a removal begins with.
	stuck := ".tmp-" + strings.Repeat("a", 235) + "-ABCDEFGH"
	must(t, os.Mkdir(filepath.Join(s.Dir, stuck), 0o755))
	verdicts, err := s.Retain(Needed{Releases: []Release{oss("1.1.0")}})
	if err == nil {
		t.Fatal("the removal did not fail")
	}
	for _, v := range verdicts {
		_, err := os.Lstat(filepath.Join(s.Dir, v.Entry.Name))
		if here := err == nil; here != v.Keep {
			t.Errorf("%.20s is there: %v; the verdict says %v (%s)", v.Entry.Name, here, v.Keep, v.Reason)
		}
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, "1.0.0")); err == nil {
		t.Error("1.0.0 stays because another version could not be removed")
	}
}

func ExampleClassify() {
	for _, v := range Classify(RetainInput{
		Entries: []Entry{
			{Name: "15.1.1", Kind: Complete, Release: Release{Version: "15.1.1", Edition: version.OSS}},
			{Name: "15.0.0", Kind: Complete, Release: Release{Version: "15.0.0", Edition: version.OSS}},
		},
		Keep: []Release{{Version: "15.1.1", Edition: version.OSS}},
	}) {
		fmt.Println(v.Entry.Name, v.Keep, v.Reason)
	}
	// Output:
	// 15.1.1 true the active or previous version, or one that the journal names
	// 15.0.0 false not needed any more
}
