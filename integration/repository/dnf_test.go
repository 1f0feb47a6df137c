//go:build hosts

package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

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
	t.Parallel()
	suites := []string{"bookworm"}
	if os.Getenv("FAULTS") == "all" {
		suites = append(suites, "bullseye", "trixie")
	}
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			o := scenes.DnfHost
			o.Suite = suite
			s := newSite(t, o)
			s.configureDnf(s.shelf.read("teleport-update.asc"))
			s.says(s.dnf("install", "teleport-update"), 0)
			s.runs("1.0.0")

			s.adds(updaters(t, "1.1.0"))
			s.publish()
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
		{"expired", s.expired, "repomd.xml GPG signature verification error"},
		{"wrongly signed", func(dir string) {
			s.other(dir, "1.0.0", keyNumber(s.t, 1))
		}, "repomd.xml GPG signature verification error"},
		{"unsigned", func(dir string) {
			check(s.t, os.Remove(filepath.Join(dir, folder, "repodata/repomd.xml.asc")))
		}, "signature"},
		{"changed after it was signed", func(dir string) {
			s.edit(dir, folder+"/repodata/repomd.xml", "<revision>", "<revision>1")
		}, "signature"},
		{"an index that was changed", func(dir string) {
			s.other(dir, "1.1.0", s.key)
			damage(s.t, dir, folder+"/repodata/*-primary.xml.gz")
		}, "hecksum"},
		{"a package that was changed", func(dir string) { damage(s.t, dir, folder+"/*-1.1.0-*.rpm") }, "hecksum"},
		{"a package that another key has signed", func(dir string) {
			s.other(dir, "1.1.0", keyNumber(s.t, 1))
			s.indexes(filepath.Join(dir, folder))
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

// indexes writes the index of a folder with rpms, and signs it with the key of the repository.
func (s *site) indexes(folder string) {
	s.t.Helper()
	if out, err := exec.Command("createrepo_c", "--quiet", "--no-database", folder).CombinedOutput(); err != nil {
		s.t.Fatalf("createrepo_c: %v\n%s", err, out)
	}
	repomd := filepath.Join(folder, "repodata/repomd.xml")
	_, err := s.key.GPG("--yes", "--armor", "--detach-sign", repomd)
	check(s.t, err)
}

// rpm itself has the last word on its signatures.
func TestRPMsAreSignedAsRPMWants(t *testing.T) {
	t.Parallel()
	s := newSite(t, scenes.DnfHost)
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
	for _, line := range []string{"Header V4 RSA/SHA512 Signature", "Header SHA256 digest: OK", "Payload SHA256 digest: OK"} {
		if strings.Count(said, line) != len(found) {
			t.Errorf("%q is not said of each of %d packages:\n%s", line, len(found), said)
		}
	}
	if strings.Contains(said, "NOKEY") || strings.Contains(said, "BAD") {
		t.Errorf("rpmkeys:\n%s", said)
	}
}
