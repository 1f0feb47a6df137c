//go:build hosts

package takeover

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// packagedAgents are the hosts on which a package brought the agent.
var packagedAgents = map[string]struct {
	host    host.Options
	install func(s *scene)
	origin  string
}{
	"of apt's, with programs where the links are": {host.Options{}, func(s *scene) { s.InstallOldDeb("") }, "deb teleport 0.9.0\n"},
	"of apt's, with programs of its own folder": {host.Options{}, func(s *scene) {
		s.Must("rm", "/etc/teleport.yaml")
		s.AptRepository(s.SystemDeb(scenes.OldVersion))
		s.Apt("install", "teleport")
		s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n")
		s.Must("systemctl", "enable", "--now", "teleport")
	}, "deb teleport 0.9.0\n"},
	"of dnf's": {scenes.DnfHost, func(s *scene) { s.InstallOldRPM() }, "rpm teleport 0.9.0-1\n"},
}

// The agent that a package brought is the version before the first one of the updater's.
func TestRollbackGoesBackToWhatThePackageBrought(t *testing.T) {
	t.Parallel()
	const v = scenes.OldVersion
	for name, tc := range packagedAgents {
		t.Run(name, func(t *testing.T) {
			s := sceneOn(t, tc.host)
			tc.install(s)
			s.Grows(3)
			s.Release(release.Spec{Version: "1.0.0", Schema: 2}) // which the package's version cannot read
			s.Wants("1.0.0")
			rows := s.RowsOf(v)
			s.Enable("--health-window", "1s")
			s.Serves("1.0.0")
			if s.Exists(carriedFile) {
				t.Errorf("what the package's unit says is taken for an administrator's:\n%s", s.Read(carriedFile))
			}
			if got := s.Read(store + "/" + v + "/origin"); got != tc.origin {
				t.Errorf("the version comes from %q; want %q", got, tc.origin)
			}
			if out := s.Must(updater, "verify"); !strings.Contains(out, "version 0.9.0: whole, previous, from the package ("+strings.TrimSpace(tc.origin)+"), for rollback only") {
				t.Errorf("verify says\n%s", out)
			}

			s.Must(updater, "rollback")
			s.Serves(v)
			if s.RowsOf("1.0.0") != 0 || s.RowsOf(v) < rows {
				t.Errorf("the database has %d rows of 1.0.0, and %d of the %d of the package's version", s.RowsOf("1.0.0"), s.RowsOf(v), rows)
			}
			if unit := s.Read(unitFile); !strings.Contains(unit, "ExecStart="+linkDir+"/teleport start --config /etc/teleport.yaml") {
				t.Errorf("the unit is\n%s", unit)
			}
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Serves(v)
			if code := s.Tick(); code != 0 {
				t.Errorf("a tick after it ends with %d", code)
			}
			s.Serves(v)

			// What the cluster wants is a release.
			s.Sound(v)
			s.Wants(v)
			if code := s.Tick(); code != 0 {
				t.Errorf("the tick that fetches the release ends with %d", code)
			}
			if s.Exists(store+"/"+v+"/origin") || !s.Exists(store+"/"+v+"/sha256") {
				t.Error("the package's programs are still there")
			}
			s.Must("systemctl", "restart", "teleport")
			s.Serves(v)
			s.Must(updater, "verify")
		})
	}
}

func TestAPackageVersionThatCannotBeKeptStopsNothing(t *testing.T) {
	t.Parallel()
	const says = "the version that the package brought is not kept"
	for name, tc := range map[string]struct {
		spoil func(s *scene)
		why   string
	}{
		"a program of the package's was changed": {func(s *scene) { s.Must("sh", "-c", "echo '# changed' >>"+linkDir+"/tsh") }, "is not as its package brought it"},
		"the unit was changed":                   {func(s *scene) { s.Must("sh", "-c", "echo '# changed' >>"+scenes.PackagesUnit) }, "is not as its package brought it"},
		"it has no checksums":                    {func(s *scene) { s.Must("rm", "/var/lib/dpkg/info/teleport.md5sums") }, "checksums"},
		"a folder has its name":                  {func(s *scene) { s.Write(store+"/"+scenes.OldVersion+"/edition", "oss\n") }, "has a folder already"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.InstallOldDeb("")
			s.Sound("1.0.0")
			s.Wants("1.0.0")
			tc.spoil(s)
			s.Enable("--health-window", "1s")
			s.Taken("1.0.0")
			if log := s.Log(""); !strings.Contains(log, says) || !strings.Contains(log, tc.why) {
				t.Errorf("nobody says that it is not kept, and why: %s", tc.why)
			}
			s.Fails(1, "there is no previous version to go back to", updater, "rollback")
			if names, _ := s.Names(store); strings.Contains(strings.Join(names, " "), ".tmp-") {
				t.Errorf("leftovers: %q", names)
			}
		})
	}
}

// The package of the very version that the cluster wants is taken over by the release.
func TestAPackageOfTheWantedVersionIsNotKeptBesideIt(t *testing.T) {
	s := newScene(t)
	s.InstallOldDeb("")
	s.Sound(scenes.OldVersion)
	s.Wants(scenes.OldVersion)
	s.Enable("--health-window", "1s")
	s.Taken(scenes.OldVersion)
	if s.Exists(store + "/" + scenes.OldVersion + "/origin") {
		t.Error("the package's programs took the place of the release")
	}
	s.Fails(1, "there is no previous version to go back to", updater, "rollback")
}

// Its version goes on with --fips, too.
func TestThePackageOfAFIPSAgentIsTakenOver(t *testing.T) {
	s := newScene(t)
	s.Must("rm", "/etc/teleport.yaml")
	s.AptRepository(s.fipsDeb())
	s.Apt("install", "teleport-fips")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Grows(3)
	s.Release(release.Spec{Version: "1.0.0", Edition: version.FIPS, Schema: 2})
	s.Set(find.Answer{Version: "1.0.0", Edition: version.FIPS, AutoUpdate: true})
	s.Enable("--health-window", "1s")
	s.started("1.0.0", " --fips")
	if out := s.Try("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport-fips").Stdout; out != "" && out != "not-installed" {
		t.Errorf("dpkg says that the package is %s", out)
	}
	if got := s.Read(store + "/0.9.0/edition"); got != "enterprise-fips\n" {
		t.Errorf("the version that is kept is of the edition %q", got)
	}
	s.Must(updater, "rollback")
	s.started("0.9.0", " --fips")
}

// fipsDeb is the old package under the name of the one for FIPS, whose unit says so.
func (s *scene) fipsDeb() string {
	s.T.Helper()
	dir := s.T.TempDir()
	deb := filepath.Join(s.T.TempDir(), "teleport-fips_0.9.0_all.deb")
	s.Release(release.Spec{Version: scenes.OldVersion, Edition: version.FIPS})
	tarball := filepath.Join(s.Releases, release.Name(scenes.OldVersion, version.FIPS))
	for _, command := range []string{
		"dpkg-deb -R " + s.OldDeb(scenes.OldVersion, "") + " " + dir + "/p",
		"sed -i 's/^Package: teleport$/Package: teleport-fips/' " + dir + "/p/DEBIAN/control",
		"sed -i '/^ExecStart=/s/$/ --fips/' " + dir + "/p" + scenes.PackagesUnit,
		"tar -xzOf " + tarball + " teleport-ent/teleport >" + dir + "/p" + linkDir + "/teleport",
		"dpkg-deb --root-owner-group -Zgzip -z1 --build " + dir + "/p " + deb,
	} {
		if out, err := exec.CommandContext(s.T.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
			s.T.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return deb
}
