//go:build hosts

package storage

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// A file system that is full, of bytes or of files, ends an update with one
// clear error; the agent does not notice, and nothing that was begun stays.

// leaveFiles fills a file system until so many files can be made.
func (s *scene) leaveFiles(dir string, files int64) {
	s.T.Helper()
	s.MkdirAll(dir + "/ballast")
	_, free := s.Free(dir)
	s.Must("sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do : >%s/ballast/$i; i=$((i+1)); done`, free-files, dir))
	if _, left := s.Free(dir); left != files {
		s.T.Fatalf("%d files can be made in %s; want %d", left, dir, files)
	}
}

// many is a release with so many programs beside the agent, each of that size;
// they are far smaller in a tarball.
func (s *scene) many(v string, programs int, size int) {
	s.T.Helper()
	content := []byte("#!/bin/sh\n" + strings.Repeat("# padding\n", size/10))
	var files []release.File
	for i := range programs {
		files = append(files, release.File{Name: fmt.Sprintf("t%03d", i), Data: content})
	}
	s.Release(release.Spec{Version: v, Files: files})
}

func TestAFullDiskStopsAnUpdateBeforeTheAgentNotices(t *testing.T) {
	s := newScene(t)
	// An agent that writes would take of the last bytes what it can get.
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\nstand_in:\n  rows_per_second: 0\n")
	s.Small(programs, "100m", 2000)
	s.Small(scenes.AgentData, "100m", 2000)
	s.Sound("1.0.0", "1.1.0")
	s.many("1.2.0", 8, 4<<20) // 32 MiB
	s.many("1.3.0", 600, 10)
	s.RunsOn("1.0.0")
	const mib = 1 << 20
	for _, tc := range []struct {
		name    string
		version string
		fill    func()
		says    []string
	}{
		{"too few bytes for the estimate", "1.1.0", func() { s.Leave(programs, 10*mib) }, []string{"not enough space on the file system of " + programs, " needed, ", " free"}},
		{"no byte at all", "1.1.0", func() { s.Leave(programs, 0) }, []string{"not enough space on the file system of " + programs, " needed, ", " free"}},
		{"no byte beside the data", "1.1.0", func() { s.Leave(scenes.AgentData, 0) }, []string{"not enough space on the file system of " + scenes.AgentData, " needed, ", " free"}},
		{"full in the middle of the unpack", "1.2.0", func() { s.Leave(programs, 26*mib) }, []string{"no space left on the file system of " + programs, " free"}},
		{"too few files", "1.1.0", func() { s.leaveFiles(programs, 100) }, []string{"256 files (inodes) needed, ", "files (inodes) free"}},
		{"no file at all", "1.1.0", func() { s.leaveFiles(programs, 0) }, []string{"256 files (inodes) needed, 0 files (inodes) free"}},
		{"out of files in the middle of the unpack", "1.3.0", func() { s.leaveFiles(programs, 400) }, []string{"no space left on the file system of " + programs, "0 files (inodes) free"}},
	} {
		s.Wants(tc.version)
		tc.fill()
		s.Refused(tc.name, tc.says, updater, "update", "--now")
		if names, _ := s.Names(store + "/partial"); len(names) > 0 {
			t.Errorf("%s: left in partial/: %v", tc.name, names)
		}
		s.Serves("1.0.0")
		s.Must("rm", "-rf", programs+"/ballast", scenes.AgentData+"/ballast")
	}
	s.Wants("1.1.0")
	s.Must(updater, "update", "--now")
	s.Serves("1.1.0")
}

func TestAFullDiskStopsAFirstEnable(t *testing.T) {
	s := newScene(t)
	s.Small(programs, "100m", 2000)
	s.Small(scenes.AgentData, "100m", 2000)
	s.MkdirAll(store)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	enable := []string{updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL}
	for _, tc := range []struct {
		name string
		fill func()
		says string
	}{
		{"too few bytes", func() { s.Leave(programs, 1<<20) }, "not enough space"},
		{"no byte at all", func() { s.Leave(programs, 0) }, "space"},
		{"no file at all", func() { s.leaveFiles(programs, 0) }, "space"},
		{"too few bytes beside the data", func() { s.Leave(scenes.AgentData, 1<<20) }, "space"},
		{"no byte beside the data", func() { s.Leave(scenes.AgentData, 0) }, "space"},
		{"no file beside the data", func() { s.leaveFiles(scenes.AgentData, 0) }, "space"},
	} {
		tc.fill()
		s.Refused(tc.name, []string{tc.says, "nothing was changed"}, enable...)
		s.Must("rm", "-rf", programs+"/ballast", scenes.AgentData+"/ballast")
	}
	s.Must(enable...)
	s.Linked("1.0.0")
}

// The links have a file system of their own, with room for some names: for less than the four spares, or for these and zero or one
// temporary or new name.
func TestLinksThatDoNotFitAreTakenBack(t *testing.T) {
	s := newScene(t)
	s.Small(linkDir, "1m", 50)
	s.Sound("1.0.0")
	added := func(v string, names ...string) {
		r := release.Spec{Version: v}
		for _, name := range names {
			r.Files = append(r.Files, release.File{Name: name, Data: []byte("#!/bin/sh\n")})
		}
		s.Release(r)
	}
	added("1.1.0", "aaa") // comes before what is there
	added("1.2.0", "tzz") // after all but the agent
	s.RunsOn("1.0.0")
	const spares, links = "keep what an undoing of the change needs", "failed and was undone: link version"
	for _, tc := range []struct {
		version string
		free    int64
		says    string
		fetched bool // the version stays on disk for the next run, which tries again
	}{
		{"1.1.0", 4, links, true},  // not even the first
		{"1.1.0", 5, links, false}, // the new name, and none that changes
		{"1.1.0", 0, spares, false},
		{"1.1.0", 3, spares, false},
		{"1.2.0", 4, links, true},
		{"1.2.0", 5, links, false}, // all but the agent's
	} {
		name := fmt.Sprintf("%s with %d files free", tc.version, tc.free)
		s.Wants(tc.version)
		s.leaveFiles(linkDir, tc.free)
		if tc.fetched {
			s.Fails(1, tc.says, updater, "update", "--now")
		} else {
			s.Refused(name, []string{tc.says, "no space left on the file system of " + linkDir}, updater, "update", "--now")
		}
		s.Serves("1.0.0")
		s.Must("rm", "-rf", linkDir+"/ballast")
	}
	s.Must(updater, "update", "--now")
	s.Serves("1.2.0")
}
