//go:build hosts

package packages

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// The worst exposure, as "systemd-analyze security" counts it, that the find
// server's unit may have.
const exposureLimit = 2.5

func TestTheFindServersPackage(t *testing.T) {
	t.Parallel()
	for _, suite := range []string{"bullseye", "bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			s := bareScene(t, host.Options{Suite: suite})
			server, updater := scenes.PackageOf(t, "teleport-find", scenes.PackageOld, "deb"), scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb")
			s.Sound("1.0.0")
			s.AptRepository(server, updater)
			s.Apt("install", "teleport-find", "teleport-update")
			if state := s.Show("teleport-find", "ActiveState") + " " + s.Show("teleport-find", "UnitFileState"); state != "inactive disabled" {
				t.Errorf("after the installation the service is %s", state)
			}

			const config = "/etc/default/teleport-find"
			s.Write(config, s.Read(config)+"TELEPORT_FIND_LISTEN=:443\nTELEPORT_FIND_HOSTNAME=localhost\nTELEPORT_FIND_SELF_SIGNED=true\nTELEPORT_FIND_STATE=/var/lib/teleport-find/tls\n")
			name := release.Name("1.0.0", "oss")
			for _, file := range []string{name, name + ".sha256"} {
				s.Check(s.CopyIn(s.Releases+"/"+file, "/var/lib/teleport-find/releases/"+file, 0o644))
			}
			s.Must("systemctl", "enable", "--now", "teleport-find")
			host.Wait(t, patience, func() error {
				_, err := s.ReadFile("/var/lib/teleport-find/tls/ca.pem")
				return err
			})
			if exposure := s.exposure("teleport-find.service"); exposure > exposureLimit {
				t.Errorf("its exposure is %v; at most %v is wanted:\n%s", exposure, exposureLimit, s.Must("systemd-analyze", "security", "--no-pager", "teleport-find.service"))
			} else {
				t.Logf("MEASURED: exposure of teleport-find.service on %s: %v", suite, exposure)
			}
			if user := strings.TrimSpace(s.Must("sh", "-c", "stat -c %U /proc/$(systemctl show -p MainPID --value teleport-find)")); user != "teleport-find" {
				t.Errorf("it runs as %s", user)
			}

			// A host of its own cluster: this very one.
			s.Must("teleport-update", "enable", "--proxy", "127.0.0.1:443", "--ca-file", "/var/lib/teleport-find/tls/ca.pem", "--health-window", "1s",
				"--template", "https://127.0.0.1:443/releases/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz")
			s.Path = scenes.Packaged
			s.Linked("1.0.0")

			// What is said is kept: over restarts, a crash, and whatever becomes of
			// the package.
			s.waitForAnswer("1.0.0")
			said := s.Must("teleport-find", "set-version", "1.2.3", "--schedule", "immediate")
			if !strings.Contains(said, "hosts are told 1.2.3 oss, and to stay as they are") {
				t.Errorf("set-version says:\n%s", said)
			}
			s.waitForAnswer("1.2.3")
			if r := s.Try("teleport-find", "mode", "enabled"); r.Code != 0 || !strings.Contains(r.Stderr, "no tarball of this version") {
				t.Errorf("enable: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			s.waitForAnswer("1.2.3 now")
			if r := s.Try("runuser", "-u", "nobody", "--", "teleport-find", "mode", "disabled"); r.Code != 1 || !strings.Contains(r.Stderr, "no permission to open /run/teleport-find/admin.sock") {
				t.Errorf("another user: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			s.Must("runuser", "-u", "teleport-find", "--", "teleport-find", "get", "autoupdate_version")
			s.releasesAreRoots()
			if modes := s.Must("stat", "-c", "%U %a", "/var/lib/teleport-find/store", "/var/lib/teleport-find/store/store.db", "/run/teleport-find/admin.sock"); modes != "teleport-find 700\nteleport-find 600\nteleport-find 600" {
				t.Errorf("the store's folder, the store and the socket are\n%s", modes)
			}
			s.backsUp()
			s.Must("systemctl", "restart", "teleport-find")
			s.waitForAnswer("1.2.3 now")
			killed := s.Show("teleport-find", "MainPID")
			s.KillsMain("teleport-find")
			host.Wait(t, patience, func() error {
				// Between two starts it could not be reloaded below.
				if unit, err := s.Unit(t.Context(), "teleport-find"); err != nil || unit["MainPID"] == killed || unit["ActiveState"] != "active" {
					return fmt.Errorf("process %s was killed; the unit is %s with process %s (%v)", killed, unit["ActiveState"], unit["MainPID"], err)
				}
				return nil
			})
			s.waitForAnswer("1.2.3 now")

			// A renewed answer, an upgrade of the package, its end.
			s.Must("systemctl", "reload", "teleport-find")
			s.AptRepository(server, scenes.PackageOf(t, "teleport-find", scenes.PackageNew, "deb"))
			before := s.Show("teleport-find", "MainPID")
			s.Apt("upgrade")
			if after := s.Show("teleport-find", "MainPID"); after == before || s.Show("teleport-find", "ActiveState") != "active" {
				t.Errorf("after an upgrade the server is process %s, before %s, and %s", after, before, s.Show("teleport-find", "ActiveState"))
			}
			if !strings.Contains(s.Read(config), "LISTEN=:443\n") {
				t.Error("the upgrade took the configuration back")
			}
			s.waitForAnswer("1.2.3 now")
			s.releasesAreRoots()
			s.Apt("remove", "teleport-find")
			s.Apt("install", "teleport-find")
			s.Must("systemctl", "start", "teleport-find")
			s.waitForAnswer("1.2.3 now")

			if out := s.Apt("purge", "teleport-find"); !strings.Contains(out, "/var/lib/teleport-find stays") {
				t.Errorf("purge does not say what it leaves:\n%s", out)
			}
			if s.Exists("/etc/systemd/system/timers.target.wants/teleport-find-backup.timer") {
				t.Error("purge left the timer of backups enabled")
			}
			if s.Exists("/etc/systemd/system/multi-user.target.wants/teleport-find.service") || !s.Exists("/var/lib/teleport-find/tls") || !s.Exists("/var/lib/teleport-find/store/store.db") {
				t.Error("purge left the enablement, or took the authority or the store away")
			}
		})
	}
}

// releasesAreRoots asserts that the daemon cannot change what hosts install, neither in the
// folders nor by others in their place.
func (s *scene) releasesAreRoots() {
	s.T.Helper()
	const dir = "/var/lib/teleport-find"
	owners := s.Must("stat", "-c", "%U %a", dir, dir+"/releases", dir+"/packages")
	if owners != "root 755\nroot 755\nroot 755" {
		s.T.Errorf("the folders of the server and of what it serves are\n%s", owners)
	}
	pid := s.Show("teleport-find", "MainPID")
	for _, change := range []string{"touch " + dir + "/releases/new", "mv " + dir + "/releases " + dir + "/other", "rmdir " + dir + "/packages"} {
		// As the daemon's user, in its view of the file system.
		inside := []string{"nsenter", "--target", pid, "--mount", "--", "setpriv", "--reuid=teleport-find", "--regid=teleport-find", "--clear-groups", "sh", "-c", change}
		if r := s.Try(inside...); r.Code == 0 {
			s.T.Errorf("the daemon could do %q", change)
		}
	}
}

// backsUp asserts that the unit of the timer makes a backup, which root can put back.
func (s *scene) backsUp() {
	s.T.Helper()
	s.Must("systemctl", "enable", "--now", "teleport-find-backup.timer")
	s.Must("systemctl", "start", "teleport-find-backup.service")
	const folder = "/var/lib/teleport-find/backups"
	made := strings.Fields(s.Must("find", folder, "-name", "store-*.db", "-perm", "0600", "-user", "teleport-find"))
	if len(made) != 1 {
		s.T.Fatalf("backups are %q", made)
	}
	if exposure := s.exposure("teleport-find-backup.service"); exposure > exposureLimit {
		s.T.Errorf("the exposure of the backup's unit is %v; at most %v is wanted", exposure, exposureLimit)
	}
	before := s.Must("stat", "-c", "%U %a", "/var/lib/teleport-find/store/store.db")
	s.Must("systemctl", "stop", "teleport-find")
	s.Must("teleport-find", "restore", made[0])
	if after := s.Must("stat", "-c", "%U %a", "/var/lib/teleport-find/store/store.db"); after != before {
		s.T.Errorf("the restored store is %s, before it was %s", after, before)
	}
	s.Must("systemctl", "start", "teleport-find")
	s.waitForAnswer("1.2.3")
	s.Must("teleport-find", "mode", "enabled")
	s.waitForAnswer("1.2.3 now")
}

// waitForAnswer waits until the find server tells hosts this: a version, and "now" where
// they are to update.
func (s *scene) waitForAnswer(want string) {
	s.T.Helper()
	host.Wait(s.T, patience, func() error {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(s.Read("/var/lib/teleport-find/tls/ca.pem")))
		client := &http.Client{Transport: &http.Transport{DialContext: s.Dial, TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		answer, err := (&find.Client{HTTP: client}).Ask(s.T.Context(), find.Request{Proxy: "localhost:443"})
		if err != nil {
			return err
		}
		got := answer.Version
		if answer.AutoUpdate {
			got += " now"
		}
		if got != want {
			return fmt.Errorf("hosts are told %q; want %q", got, want)
		}
		return nil
	})
}

var exposureLine = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

func (s *scene) exposure(unit string) float64 {
	s.T.Helper()
	out := s.Must("systemd-analyze", "security", "--no-pager", unit)
	m := exposureLine.FindStringSubmatch(out)
	if m == nil {
		s.T.Fatalf("systemd-analyze security says:\n%s", out)
	}
	level, err := strconv.ParseFloat(m[1], 64)
	s.Check(err)
	return level
}
