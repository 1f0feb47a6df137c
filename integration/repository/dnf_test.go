//go:build hosts

package repository

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

// dnfHost is a Debian with dnf, and with a database of rpm's that knows nothing of
// dpkg's.
var dnfHost = host.Options{Packages: []string{"createrepo-c", "dnf", "rpm"}}

// rpmArch is what rpm calls this machine.
var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

const rpmKey = "/etc/pki/rpm-gpg/teleport-update.asc"

func (s *site) dnf(args ...string) host.Result {
	s.t.Helper()
	// Debian's dnf goes on without a repository that it refuses.
	return s.Try(append([]string{"dnf", "--assumeyes", "--releasever=1", "--setopt=skip_if_unavailable=False"}, args...)...)
}

func (s *site) configureDnf(key string) {
	s.t.Helper()
	s.Write(rpmKey, key)
	s.Write("/etc/yum.repos.d/teleport-update.repo", s.shelf.read("teleport-update.repo"))
}

// FAULTS=all tries an older and a newer dnf and rpm, too, which need roots of their
// own.
func TestDnfInstallsAndUpgrades(t *testing.T) {
	suites := []string{"bookworm"}
	if os.Getenv("FAULTS") == "all" {
		suites = append(suites, "bullseye", "trixie")
	}
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			o := dnfHost
			o.Suite = suite
			s := newSite(t, o)
			s.configureDnf(s.shelf.read("teleport-update.asc"))
			s.says(s.dnf("install", "teleport-update"), 0)
			s.runs("1.0.0")

			s.publish("--packages", updaters(t, "1.1.0"))
			s.says(s.dnf("--refresh", "upgrade"), 0)
			s.runs("1.1.0")
			// The older one is there for who needs it.
			s.says(s.dnf("downgrade", "teleport-update"), 0)
			s.runs("1.0.0")
			s.refusesOfDnf()

			s.serves(s.dir)
			s.says(s.dnf("--refresh", "upgrade"), 0)
			s.runs("1.1.0")
		})
	}
}

func (s *site) refusesOfDnf() {
	s.t.Helper()
	folder := filepath.Join("yum", rpmArch)
	for _, tc := range []struct {
		name  string
		spoil func(dir string)
		want  string
	}{
		{"expired", func(dir string) { s.other(dir, s.key.secret, "--valid-for", "1h") }, "repomd.xml GPG signature verification error"},
		{"wrongly signed", func(dir string) { s.other(dir, keyNumber(s.t, 1).secret) }, "repomd.xml GPG signature verification error"},
		{"unsigned", func(dir string) {
			check(s.t, os.Remove(filepath.Join(dir, folder, "repodata/repomd.xml.asc")))
		}, "signature"},
		{"changed after it was signed", func(dir string) {
			s.edit(dir, folder+"/repodata/repomd.xml", "<revision>", "<revision>1")
		}, "signature"},
		{"an index that was changed", func(dir string) {
			s.other(dir, s.key.secret, "--packages", updaters(s.t, "1.1.0"))
			damage(s.t, dir, folder+"/repodata/*-primary.xml.gz")
		}, "hecksum"},
		{"a package that was changed", func(dir string) { damage(s.t, dir, folder+"/*-1.1.0-*.rpm") }, "hecksum"},
		{"a package that another key has signed", func(dir string) {
			s.other(dir, keyNumber(s.t, 1).secret, "--packages", updaters(s.t, "1.1.0"))
			runAt(s.t, s.now.Add(2*3600e9), "--key", s.key.secret, "--previous-key", keyNumber(s.t, 1).public, "--to", dir, "--packages", "")
		}, "not installed|GPG check FAILED|not correct"},
	} {
		s.t.Run(tc.name, func(t *testing.T) {
			outer := s.t
			s.t, s.shelf.t = t, t
			defer func() { s.t, s.shelf.t = outer, outer }()
			s.Must("dnf", "clean", "packages")
			dir := s.copied()
			tc.spoil(dir)
			s.serves(dir)
			s.says(s.dnf("--refresh", "upgrade"), 1, tc.want)
			s.runs("1.0.0")
		})
	}
}

// rpm itself has the last word on its signatures; createrepo on what an index says.
func TestRPMsAreSignedAndDescribedAsOthersDo(t *testing.T) {
	t.Parallel()
	s := newSite(t, dnfHost)
	s.publish("--packages", otherStandIns(t, "0.9.0", Options{Relations: true}))
	const srv = "/srv/rpms"
	found, err := filepath.Glob(filepath.Join(s.dir, "yum", rpmArch, "*.rpm"))
	check(t, err)
	for _, path := range found {
		check(t, s.CopyIn(path, srv+"/"+filepath.Base(path), 0o644))
	}
	verify := []string{"sh", "-c", "rpmkeys --checksig --verbose " + srv + "/*.rpm"}
	if r := s.Try(verify...); r.Code == 0 || !strings.Contains(r.Stdout, "NOKEY") {
		t.Errorf("without the key: %d\n%s", r.Code, r.Stdout)
	}
	s.Write(rpmKey, s.shelf.read("teleport-update.asc"))
	s.Must("rpmkeys", "--import", rpmKey)
	said := s.Must(verify...)
	for _, line := range []string{"Header V4 RSA/SHA256 Signature", "Header SHA256 digest: OK", "Payload SHA256 digest: OK", "    V4 RSA/SHA256 Signature"} {
		if strings.Count(said, line) != len(found) {
			t.Errorf("%q is not said of each of %d packages:\n%s", line, len(found), said)
		}
	}
	if strings.Contains(said, "NOKEY") || strings.Contains(said, "BAD") {
		t.Errorf("rpmkeys:\n%s", said)
	}

	s.Must("createrepo_c", "--quiet", "--no-database", srv)
	for _, kind := range []string{"primary", "filelists", "other"} {
		theirs := s.Must("sh", "-c", "zcat "+srv+"/repodata/*-"+kind+".xml.gz")
		ours, err := filepath.Glob(filepath.Join(s.dir, "yum", rpmArch, "repodata/*-"+kind+".xml.gz"))
		check(t, err)
		newest := slices.MaxFunc(ours, func(a, b string) int { return modified(t, a).Compare(modified(t, b)) })
		check(t, s.CopyIn(newest, "/srv/ours.gz", 0o644))
		got, want := packagesIn(t, s.Must("zcat", "/srv/ours.gz")), packagesIn(t, theirs)
		if len(got) != 2 || !slices.Equal(got, want) {
			t.Errorf("%s is\n%s\nwant\n%s", kind, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// packagesIn writes each package of an index as text that does not depend on how
// the XML was written, sorted. The time of a file is left out: createrepo takes that
// of the disk.
func packagesIn(t *testing.T, index string) (all []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(index))
	var text strings.Builder
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			slices.Sort(all)
			return all
		}
		check(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "package" {
				text.Reset()
			}
			slices.SortFunc(token.Attr, func(a, b xml.Attr) int { return strings.Compare(a.Name.Local, b.Name.Local) })
			fmt.Fprintf(&text, "\n%s %s", token.Name.Space, token.Name.Local)
			for _, a := range token.Attr {
				if token.Name.Local != "time" || a.Name.Local != "file" {
					fmt.Fprintf(&text, " %s=%q", a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if s := strings.TrimSpace(string(token)); s != "" {
				fmt.Fprintf(&text, " %q", s)
			}
		case xml.EndElement:
			if token.Name.Local == "package" {
				all = append(all, text.String())
			}
		}
	}
}
