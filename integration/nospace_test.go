//go:build hosts

package integration

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// A file system that is full, of bytes or of files, ends an update with one
// clear error; the agent does not notice, and nothing that was begun stays.

const dataDir = "/var/lib/teleport"

// small mounts a small file system of its own in the host.
func (s *scene) small(dir, size string, files int) {
	s.t.Helper()
	if err := s.MkdirAll(dir); err != nil {
		s.t.Fatal(err)
	}
	s.Must("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%s,nr_inodes=%d,mode=755", size, files), "tmpfs", dir)
}

// free is what a file system has left: bytes and files.
func (s *scene) free(dir string) (bytes, files int64) {
	s.t.Helper()
	if _, err := fmt.Sscan(s.Must("stat", "-f", "-c", "%a %d", dir), &bytes, &files); err != nil {
		s.t.Fatal(err)
	}
	return bytes * 4096, files
}

// leave fills a file system until so much is free.
func (s *scene) leave(dir string, bytes int64) {
	s.t.Helper()
	free, _ := s.free(dir)
	s.Must("fallocate", "-l", fmt.Sprint(free-bytes), dir+"/ballast")
}

// leaveFiles fills a file system until so many files can be made.
func (s *scene) leaveFiles(dir string, files int64) {
	s.t.Helper()
	s.MkdirAll(dir + "/ballast")
	_, free := s.free(dir)
	s.Must("sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do : >%s/ballast/$i; i=$((i+1)); done`, free-files, dir))
	if _, left := s.free(dir); left != files {
		s.t.Fatalf("%d files can be made in %s; want %d", left, dir, files)
	}
}

// many is a release with so many programs beside the agent, each of that size;
// it is far smaller as a tarball.
func (s *scene) many(v string, programs int, size int) {
	s.t.Helper()
	entries := soundEntries(v)
	content := "#!/bin/sh\n" + strings.Repeat("# padding\n", size/10)
	for i := range programs {
		entries = append(entries, entry{fmt.Sprintf("teleport/t%03d", i), 0o755, tar.TypeReg, content})
	}
	name := filepath.Join(s.releases, release.Name(v, version.OSS))
	data := pack(entries)
	for path, data := range map[string][]byte{name: data, name + ".sha256": fmt.Appendf(nil, "%x\n", sha256.Sum256(data))} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestAFullDiskStopsAnUpdateBeforeTheAgentNotices(t *testing.T) {
	s := newScene(t)
	// An agent that writes would take of the last bytes what it can get.
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\nstand_in:\n  rows_per_second: 0\n")
	s.small(dataDir, "100m", 2000)
	s.sound("1.0.0", "1.1.0")
	s.many("1.2.0", 8, 4<<20) // 32 MiB
	s.many("1.3.0", 600, 10)
	s.running("1.0.0")
	const mib = 1 << 20
	for _, tc := range []struct {
		name    string
		version string
		fill    func()
		says    []string
	}{
		{"too few bytes for the estimate", "1.1.0", func() { s.leave(dataDir, 10*mib) }, []string{"not enough space on the file system of " + store, " needed, ", " free"}},
		{"no byte at all", "1.1.0", func() { s.leave(dataDir, 0) }, []string{"not enough space on the file system of " + store, " needed, ", " free"}},
		{"full in the middle of the unpack", "1.2.0", func() { s.leave(dataDir, 22*mib) }, []string{"not enough space on the file system of " + store, "4.0 MiB needed, ", " free"}},
		{"too few files", "1.1.0", func() { s.leaveFiles(dataDir, 100) }, []string{"256 files (inodes) needed, ", "files (inodes) free"}},
		{"no file at all", "1.1.0", func() { s.leaveFiles(dataDir, 0) }, []string{"256 files (inodes) needed, 0 files (inodes) free"}},
		{"out of files in the middle of the unpack", "1.3.0", func() { s.leaveFiles(dataDir, 400) }, []string{"no space left on the file system of " + store, "0 files (inodes) free"}},
	} {
		s.wants(tc.version)
		tc.fill()
		s.refused(tc.name, tc.says, updater, "update", "--now")
		if names, _ := s.Names(store + "/partial"); len(names) > 0 {
			t.Errorf("%s: left in partial/: %v", tc.name, names)
		}
		s.serves("1.0.0")
		s.Must("rm", "-rf", dataDir+"/ballast")
	}
	s.wants("1.1.0")
	s.Must(updater, "update", "--now")
	s.serves("1.1.0")
}

func TestAFullDiskStopsAFirstEnable(t *testing.T) {
	s := newScene(t)
	s.small(dataDir, "100m", 2000)
	s.MkdirAll(store)
	s.sound("1.0.0")
	s.wants("1.0.0")
	enable := []string{updater, "enable", "--proxy", proxyAddress, "--template", templateURL}
	for _, tc := range []struct {
		name string
		fill func()
		says string
	}{
		{"too few bytes", func() { s.leave(dataDir, 1<<20) }, "not enough space"},
		{"no byte at all", func() { s.leave(dataDir, 0) }, "space"},
		{"no file at all", func() { s.leaveFiles(dataDir, 0) }, "space"},
	} {
		tc.fill()
		s.refused(tc.name, []string{tc.says, "nothing was changed"}, enable...)
		s.Must("rm", "-rf", dataDir+"/ballast")
	}
	s.Must(enable...)
	s.linked("1.0.0")
}

// The links have a file system of their own, with room for some of them: zero
// to three temporary and new names.
func TestLinksThatDoNotFitAreTakenBack(t *testing.T) {
	s := newScene(t)
	s.small(linkDir, "1m", 50)
	s.sound("1.0.0")
	added := func(v string, names ...string) {
		r := release.Spec{Version: v}
		for _, name := range names {
			r.Files = append(r.Files, release.File{Name: name, Data: []byte("#!/bin/sh\n")})
		}
		s.release(r)
	}
	added("1.1.0", "aaa") // comes before what is there
	added("1.2.0", "tzz") // after all but the agent
	s.running("1.0.0")
	for _, tc := range []struct {
		version string
		free    int64
	}{
		{"1.1.0", 0}, // not even the first
		{"1.1.0", 1}, // the new name, and none that changes
		{"1.2.0", 0},
		{"1.2.0", 1}, // all but the agent's; to put one back takes a name, too
	} {
		name := fmt.Sprintf("%s with %d files free", tc.version, tc.free)
		s.wants(tc.version)
		s.leaveFiles(linkDir, tc.free)
		s.refused(name, []string{"failed and was undone: link version", "no space left on the file system of " + linkDir}, updater, "update", "--now")
		s.serves("1.0.0")
		s.Must("rm", "-rf", linkDir+"/ballast")
	}
	s.Must(updater, "update", "--now")
	s.serves("1.2.0")
}
