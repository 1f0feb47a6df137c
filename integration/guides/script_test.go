//go:build hosts

package guides

import (
	"strings"
	"testing"

	"teleport-update/integration/scenes"
)

const install = "curl -fsS " + proxy + "/scripts/install.sh | "

func TestTheInstallScriptUsesApt(t *testing.T) {
	s := newSite(t)
	s.sound("1.0.0")
	s.offersPackages()
	s.wants("1.0.0")

	out := s.mustSh(install + "sh -eu -s -- --group staging")
	if version := s.Must("dpkg-query", "-W", "-f", "${Version} ${db:Status-Status}", "teleport-update"); !strings.HasSuffix(version, " installed") {
		t.Errorf("dpkg says %q:\n%s", version, out)
	}
	if got := s.Link(linkDir + "/teleport"); got != programs+"/1.0.0/bin/teleport" {
		t.Errorf("teleport leads to %q:\n%s", got, out)
	}
	config := s.Read(store + "/updates.yaml")
	for _, want := range []string{"proxy: " + proxy, "group: staging", "enabled: true"} {
		if !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	if s.Exists("/usr/local/sbin/teleport-update") {
		t.Error("the program was put beside the package's")
	}
	if left := s.Must("sh", "-c", "ls -d /tmp/tmp.* 2>/dev/null || true"); left != "" {
		t.Errorf("left in /tmp: %s", left)
	}
	s.Must("systemctl", "enable", "--now", "teleport")
	runs(t, s.Test, "1.0.0")

	// Again, as on a baked image: nothing is downloaded, nothing changes.
	s.requests("")
	before := s.Tree("/etc", "/usr/local", "/usr/bin", store)
	out = s.mustSh(install + "sh -eu -s -- --group staging")
	if !strings.Contains(out, "is installed already, as /usr/bin/teleport-update") {
		t.Errorf("the second time it says\n%s", out)
	}
	if asked := s.requests("/packages"); len(asked) > 0 {
		t.Errorf("the second time it asked for %q", asked)
	}
	s.Unchanged(before, s.Tree("/etc", "/usr/local", "/usr/bin", store), store+"/find.json", store+"/update.lock")
}

func TestTheInstallScriptManagesWithoutAPackageManager(t *testing.T) {
	s := newSite(t)
	s.sound("1.0.0")
	s.offersPackages()
	s.wants("1.0.0")
	s.mustSh("rm -f /usr/bin/apt* /usr/bin/dpkg*")
	before := s.Tree("/etc", "/usr/local", "/var/lib")

	for _, shell := range []string{"dash", "bash --posix", "busybox sh"} {
		out := s.mustSh(install + shell + " -eu")
		if got := s.Link(linkDir + "/teleport"); got != programs+"/1.0.0/bin/teleport" {
			t.Errorf("%s: teleport leads to %q:\n%s", shell, got, out)
		}
		if !strings.Contains(out, "is installed, as /usr/local/sbin/teleport-update") {
			t.Errorf("%s says\n%s", shell, out)
		}
		s.Must("/usr/local/sbin/teleport-update", "uninstall", "--with-agent")
		s.Must("rm", "/usr/local/sbin/teleport-update")
		s.Unchanged(before, s.Tree("/etc", "/usr/local", "/var/lib"), "/var/lib/systemd", "/var/lib/teleport")
	}

	// wget alone will do, and so will a script that came on media.
	s.mustSh("rm -f /usr/bin/curl; ln -s /bin/busybox /usr/local/bin/wget")
	s.Write("/root/install.sh", installScript(t))
	if r := s.sh("sh /root/install.sh"); r.Code != 1 || !strings.Contains(r.Stderr, "no server is named") {
		t.Errorf("without a server: exit code %d\n%s", r.Code, r.Stderr)
	}
}

func TestTheInstallScriptInstallsNothingDamaged(t *testing.T) {
	s := newSite(t)
	s.sound("1.0.0")
	s.wants("1.0.0")
	before := s.Tree("/etc", "/usr/local", "/usr/bin", "/var/lib/dpkg", "/var/lib/teleport")
	fails := func(what, says string) {
		t.Helper()
		r := s.sh(install + "sh -eu")
		if r.Code == 0 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: exit code %d; want %q in:\n%s", what, r.Code, says, r.Stderr)
		}
		s.Unchanged(before, s.Tree("/etc", "/usr/local", "/usr/bin", "/var/lib/dpkg", "/var/lib/teleport"))
	}
	fails("a server without packages", "has no package for")
	s.offersPackages()
	s.spoils(func(path string) bool { return strings.HasSuffix(path, ".deb") })
	fails("a damaged package", "does not match its checksum")
	s.spoils(func(path string) bool { return strings.HasSuffix(path, "SHA256SUMS") })
	fails("a damaged list", "has no package for")
	s.spoils(nil)
	if r := s.sh("setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '" + install + "sh -eu'"); r.Code == 0 || !strings.Contains(r.Stderr, "this needs root") {
		t.Errorf("as nobody: exit code %d\n%s", r.Code, r.Stderr)
	}
	s.Write(caOnHost, "")
	s.Must("update-ca-certificates", "--fresh")
	r := s.sh(install + "sh -eu")
	if !strings.Contains(r.Stderr, "SSL certificate") {
		t.Errorf("an authority that is not trusted: exit code %d\n%s", r.Code, r.Stderr)
	}
	s.Write("/root/ca.pem", string(s.caPEM))
	const key = "-----BEGIN PUBLIC KEY-----\nnone\n-----END PUBLIC KEY-----\n"
	s.Write("/root/key.pem", key)
	const demanding = "curl -fsS --cacert /root/ca.pem " + proxy + "/scripts/install.sh | sh -s -- --ca-file /root/ca.pem --package-key /root/key.pem"
	before = s.Tree("/etc", "/usr/local", "/usr/bin", "/var/lib/dpkg", "/var/lib/teleport")
	if r := s.sh(demanding); r.Code == 0 || !strings.Contains(r.Stderr, "has no signature teleport-update_") && !strings.Contains(r.Stderr, "cannot be verified") {
		t.Errorf("a package without a signature: exit code %d\n%s", r.Code, r.Stderr)
	}
	s.Unchanged(before, s.Tree("/etc", "/usr/local", "/usr/bin", "/var/lib/dpkg", "/var/lib/teleport"))
	s.mustSh("curl -fsS --cacert /root/ca.pem " + proxy + "/scripts/install.sh | sh -s -- --ca-file /root/ca.pem")
	if config := s.Read(store + "/updates.yaml"); !strings.Contains(config, "ca_file: /root/ca.pem") {
		t.Errorf("no CA in\n%s", config)
	}
}

// A host without apt and without curl, as those with rpm packages are; each has one
// of these programs. What is called yum today is dnf by another name.
func TestTheInstallScriptUsesWhatInstallsRpms(t *testing.T) {
	t.Parallel()
	for manager, others := range map[string]string{
		"dnf":    "",
		"yum":    "mv /usr/bin/dnf-3 /usr/bin/yum; rm /usr/bin/dnf",
		"zypper": "rm /usr/bin/dnf /usr/bin/dnf-3",
	} {
		t.Run(manager, func(t *testing.T) {
			t.Parallel()
			s := siteOn(t, newWorld(t), scenes.DnfHost)
			s.sound("1.0.0")
			s.offersPackages()
			s.wants("1.0.0")
			s.mustSh("rm /usr/bin/apt* /usr/bin/dpkg*; " + others)
			// Debian, which these hosts are made of, has no release number for dnf, and
			// rpm's database elsewhere.
			s.Write("/etc/dnf/vars/releasever", "1\n")
			s.Write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
			// As hardening guides have it.
			s.mustSh("echo localpkg_gpgcheck=1 >>/etc/dnf/dnf.conf")

			const install = "wget -qO- " + proxy + "/scripts/install.sh | "
			out := s.mustSh(install + "sh -eu -s -- --group staging")
			if got := s.Must("rpm", "-q", "--qf", "%{VERSION}", "teleport-update"); got != "1.2.3" {
				t.Errorf("rpm says %q:\n%s", got, out)
			}
			if !strings.Contains(out, "is installed, as /usr/bin/teleport-update") || s.Exists("/usr/local/sbin/teleport-update") {
				t.Errorf("it says\n%s", out)
			}
			s.Must("systemctl", "is-enabled", "teleport-update.timer")
			s.Must("systemctl", "enable", "--now", "teleport")
			runs(t, s.Test, "1.0.0")

			s.requests("")
			if out := s.mustSh(install + "sh -eu"); !strings.Contains(out, "is installed already, as /usr/bin/teleport-update") {
				t.Errorf("the second time it says\n%s", out)
			}
			if asked := s.requests("/packages"); len(asked) > 0 {
				t.Errorf("the second time it asked for %q", asked)
			}
		})
	}
}

// The system is an image, whose dnf refuses to change it.
func TestTheInstallScriptInstallsTheProgramAloneOnAnImage(t *testing.T) {
	for name, image := range map[string]string{
		"bootc":     "touch /run/ostree-booted",
		"read-only": "mkdir /srv/local && cp -a /usr/local/. /srv/local && mount --bind /usr /usr && mount -o remount,bind,ro /usr && mount --bind /srv/local /usr/local",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.sound("1.0.0")
			s.offersPackages()
			s.wants("1.0.0")
			s.mustSh("rm /usr/bin/apt* /usr/bin/dpkg*; printf '#!/bin/sh\necho this system is configured to be read-only >&2; exit 1\n' >/usr/bin/dnf; chmod 755 /usr/bin/dnf")
			s.mustSh(image)
			out := s.mustSh(install + "sh -eu")
			for _, want := range []string{
				"the system in /usr is an image that dnf does not change: the program alone is installed", "is installed, as /usr/local/sbin/teleport-update",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			s.Must("systemctl", "enable", "--now", "teleport")
			runs(t, s.Test, "1.0.0")
		})
	}
}
