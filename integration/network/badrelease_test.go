//go:build hosts

package network

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// entry is one entry of a tarball that a test makes by hand.
type entry struct {
	name string
	mode int64
	kind byte
	body string // of a link: where it leads
}

const theUnit = "[Service]\nExecStart=/usr/local/bin/teleport start\n"

// soundEntries are a release in Teleport's layout. Its agent is a script that
// only knows its version.
func soundEntries(v string) []entry {
	return []entry{
		{"teleport/", 0o755, tar.TypeDir, ""},
		{"teleport/teleport", 0o755, tar.TypeReg, "#!/bin/sh\necho Teleport v" + v + "\n"},
		{"teleport/tsh", 0o755, tar.TypeReg, "#!/bin/sh\n"},
		{"teleport/examples/systemd/teleport.service", 0o644, tar.TypeReg, theUnit},
	}
}

func pack(entries []entry) []byte {
	var buf bytes.Buffer
	packed := gzip.NewWriter(&buf)
	archive := tar.NewWriter(packed)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Typeflag: e.kind}
		if e.kind == tar.TypeReg {
			h.Size = int64(len(e.body))
		} else {
			h.Linkname = e.body
		}
		archive.WriteHeader(h)
		if e.kind == tar.TypeReg {
			archive.Write([]byte(e.body))
		}
	}
	archive.Close()
	packed.Close()
	return buf.Bytes()
}

// badReleases are releases of version 1.1.0.
var badReleases = []struct {
	name    string
	tarball []byte
	// checksum replaces the right one.
	checksum string
	without  string // "tarball" or "checksum" is not there
	says     string
}{
	{name: "checksum of something else", checksum: strings.Repeat("0123456789abcdef", 4) + "  teleport\n", says: "does not match its checksum"},
	{name: "checksum missing", without: "checksum", says: ".sha256"},
	{name: "checksum empty", checksum: "\n", says: "does not begin with a SHA-256"},
	{name: "checksum garbage", checksum: strings.Repeat("not a checksum at all ", 8), says: "does not begin with a SHA-256"},
	{name: "checksum a web page", checksum: "<!DOCTYPE html><html><head><title>Welcome to Hotel WiFi</title></head><body></body></html>", says: `but with "<!DOCTYPE html>`},
	{name: "checksum of another kind", checksum: strings.Repeat("0123456789abcdef", 8) + "\n", says: "only SHA-256 is taken"},
	{name: "release missing", without: "tarball", says: "404"},
	{name: "tarball cut off", tarball: pack(soundEntries("1.1.0"))[:100], says: "ends in the middle of the compressed data"},
	{name: "tarball of zeros", tarball: make([]byte, 4096), says: "neither gzip nor zstd"},
	{name: "tarball empty", tarball: []byte{}, says: "it is empty"},
	{name: "tarball a web page", tarball: []byte("<!DOCTYPE html><html>please log in</html>"), says: "neither gzip nor zstd"},
	{name: "tarball no tar archive", tarball: gzipped(bytes.Repeat([]byte("no tar archive "), 1000)), says: "no tar archive"},
	{name: "tarball without its agent", tarball: pack(soundEntries("1.1.0")[2:]), says: "no executable teleport"},
	{name: "tarball without its unit", tarball: pack(soundEntries("1.1.0")[:3]), says: "no examples/systemd/teleport.service"},
	{name: "tarball leads out of its folder", tarball: with(entry{"teleport/../../../../etc/cron.d/x", 0o644, tar.TypeReg, "x"}), says: "not clean and relative"},
	{name: "tarball has an absolute name", tarball: with(entry{"/etc/cron.d/x", 0o644, tar.TypeReg, "x"}), says: "not clean and relative"},
	{name: "tarball has a setuid program", tarball: with(entry{"teleport/tctl", 0o4755, tar.TypeReg, "#!/bin/sh\n"}), says: "no setuid"},
	{name: "tarball has a link", tarball: with(entry{"teleport/tctl", 0o777, tar.TypeSymlink, "/etc/passwd"}), says: "neither a file nor a folder but a symbolic link"},
	{name: "tarball has a hard link", tarball: with(entry{"teleport/tctl", 0o755, tar.TypeLink, "teleport/teleport"}), says: "neither a file nor a folder"},
	{name: "tarball has a device", tarball: with(entry{"teleport/tctl", 0o755, tar.TypeBlock, ""}), says: "neither a file nor a folder"},
	{name: "tarball has a file twice", tarball: with(soundEntries("1.1.0")[2]), says: "comes twice"},
	{name: "tarball of another version", tarball: pack(soundEntries("1.0.9")), says: "does not name that version"},
	{name: "tarball for another machine", tarball: with(entry{"teleport/teleport", 0o755, tar.TypeReg, "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 100)}), says: "made for another kind of machine"},
	{name: "tarball whose agent fails", tarball: with(entry{"teleport/teleport", 0o755, tar.TypeReg, "#!/bin/sh\necho no license >&2\nexit 3\n"}), says: "no license"},
}

// with is a sound release with this entry, in the place of one of that name
// unless it is the very same.
func with(e entry) []byte {
	entries := soundEntries("1.1.0")
	if i := slices.IndexFunc(entries, func(old entry) bool { return old.name == e.name && old != e }); i >= 0 {
		entries[i] = e
		return pack(entries)
	}
	return pack(append(entries, e))
}

func gzipped(data []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Write(data)
	w.Close()
	return buf.Bytes()
}

func TestABadReleaseChangesNothing(t *testing.T) {
	s := newScene(t)
	s.MkdirAll(store)
	s.Wants("1.1.0")
	for i, tc := range badReleases {
		s.publish(i)
		s.Refused("enable: "+tc.name, []string{tc.says, "; nothing was changed: remove the cause, then run the command again"}, updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
	}
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	for i, tc := range badReleases {
		s.publish(i)
		s.Refused("update: "+tc.name, []string{tc.says, "; the agent stays on version 1.0.0: "}, updater, "update", "--now")
	}
}

// publish puts one of badReleases in its place.
func (s *scene) publish(i int) {
	s.T.Helper()
	tc := badReleases[i]
	name := filepath.Join(s.Releases, release.Name("1.1.0", version.OSS))
	data, checksum := tc.tarball, tc.checksum
	if data == nil {
		data = pack(soundEntries("1.1.0"))
	}
	if checksum == "" {
		checksum = fmt.Sprintf("%x\n", sha256.Sum256(data))
	}
	for path, data := range map[string][]byte{name: data, name + ".sha256": []byte(checksum)} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			s.T.Fatal(err)
		}
	}
	s.Breaks(func(w http.ResponseWriter, r *http.Request) bool {
		isSum := strings.HasSuffix(r.URL.Path, ".sha256")
		if tc.without == "checksum" && isSum || tc.without == "tarball" && strings.Contains(r.URL.Path, "/releases/") && !isSum {
			http.NotFound(w, r)
			return true
		}
		return false
	})
}
