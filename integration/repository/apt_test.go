//go:build hosts

package repository

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

func (s *site) apt(args ...string) host.Result {
	s.t.Helper()
	r, err := s.RunCommand(s.t.Context(), host.Command{
		Args: append([]string{"apt-get", "--yes", "--quiet", "--option=Dpkg::Use-Pty=0"}, args...), Env: []string{"DEBIAN_FRONTEND=noninteractive"},
	})
	check(s.t, err)
	return r
}

// configureApt does what the guide says: the key and one file.
func (s *site) configureApt(key string) {
	s.t.Helper()
	s.Must("rm", "-rf", "/etc/apt/sources.list.d", "/etc/apt/sources.list")
	s.Write("/etc/apt/keyrings/teleport-update.asc", key)
	s.Write("/etc/apt/sources.list.d/teleport-update.sources", s.shelf.read("teleport-update.sources"))
}

// upToDate asserts that apt reads the repository without a word of warning.
func (s *site) upToDate() {
	s.t.Helper()
	r := s.apt("update")
	s.says(r, 0)
	if said := r.Stdout + r.Stderr; strings.Contains(said, "W:") || strings.Contains(said, "E:") || strings.Contains(said, "N:") {
		s.t.Errorf("apt-get update:\n%s", said)
	}
}

func TestAptInstallsAndUpgrades(t *testing.T) {
	t.Parallel()
	for _, suite := range []string{"bullseye", "bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, host.Options{Suite: suite})
			s.configureApt(s.shelf.read("teleport-update.asc"))
			s.upToDate()
			s.says(s.apt("install", "teleport-update"), 0)
			s.runs("1.0.0")

			older := s.copied()
			s.adds(updaters(t, "1.1.0"))
			s.publish()
			s.upToDate()
			s.says(s.apt("upgrade"), 0)
			s.runs("1.1.0")
			// The older one is there for who needs it.
			s.says(s.apt("install", "--allow-downgrades", "teleport-update=1.0.0"), 0)
			s.runs("1.0.0")
			s.refusesOfApt()

			// Who replays what was signed before takes nobody back.
			s.serves(older)
			s.says(s.apt("update"), 0)
			s.knows("1.1.0")

			// None of it has done harm.
			s.serves(s.dir)
			s.upToDate()
			s.says(s.apt("upgrade"), 0)
			s.runs("1.1.0")
		})
	}
}

// refusesOfApt asserts that apt takes nothing from a repository that it must not
// trust, and keeps what it knew.
func (s *site) refusesOfApt() {
	s.t.Helper()
	const suite = "apt/dists/stable/"
	index := suite + "main/binary-" + runtime.GOARCH + "/by-hash/SHA256/*"
	for _, tc := range []struct {
		name  string
		spoil func(dir string)
		code  int
		want  string
	}{
		{"expired", s.expired, 100, "is expired"},
		{"wrongly signed", func(dir string) {
			s.other(dir, "1.0.0", keyNumber(s.t, 1))
		}, 100, "NO_PUBKEY|Missing key"},
		{"unsigned", func(dir string) {
			check(s.t, os.Remove(filepath.Join(dir, suite+"InRelease")))
			check(s.t, os.Remove(filepath.Join(dir, suite+"Release.gpg")))
		}, 100, "no longer signed|is not signed"},
		{"changed after it was signed", func(dir string) {
			s.edit(dir, suite+"InRelease", "Description: the updater", "Description: The updater")
		}, 100, "BADSIG|has been manipulated"},
		{"an index that was changed", func(dir string) {
			s.other(dir, "1.1.0", s.key) // another one than the host has
			damage(s.t, dir, index)
		}, 100, "Hash Sum mismatch"},
	} {
		s.t.Run(tc.name, func(t *testing.T) {
			outer := s.t
			s.t, s.shelf.t = t, t
			defer func() { s.t, s.shelf.t = outer, outer }()
			dir := s.copied()
			tc.spoil(dir)
			s.serves(dir)
			r := s.apt("--error-on=any", "update")
			if strings.Contains(r.Stderr, "error-on") { // Debian 11 knows no such option
				r = s.apt("update")
			}
			s.says(r, r.Code, tc.want)
			if r.Code != tc.code && s.suite() != "11" {
				t.Errorf("exit code %d; want %d:\n%s%s", r.Code, tc.code, r.Stdout, r.Stderr)
			}
			// What it knew of before is signed, and still good.
			s.knows("1.1.0")
			s.runs("1.0.0")
		})
	}
	s.serves(s.dir)
	s.upToDate()
	s.t.Run("a package that was changed", func(t *testing.T) {
		dir := s.copied()
		damage(t, dir, "apt/pool/*_1.1.0_*.deb")
		s.serves(dir)
		s.Must("apt-get", "clean")
		s.says(s.apt("upgrade"), 100, "Hash Sum mismatch")
		s.runs("1.0.0")
	})
}

// knows asserts which version apt would install.
func (s *site) knows(version string) {
	s.t.Helper()
	if policy := s.Must("apt-cache", "policy", "teleport-update"); !strings.Contains(policy, "Candidate: "+version+"\n") {
		s.t.Errorf("apt would not install %s:\n%s", version, policy)
	}
}

func (s *site) suite() string {
	version, _, _ := strings.Cut(strings.TrimSpace(s.Read("/etc/debian_version")), ".")
	return version
}

func (s *site) edit(dir, name, from, to string) {
	s.t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	check(s.t, err)
	if !strings.Contains(string(data), from) {
		s.t.Fatalf("%s has no %q", name, from)
	}
	check(s.t, os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o644))
}
