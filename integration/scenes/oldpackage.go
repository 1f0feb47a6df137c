package scenes

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// The stand-in for Teleport's own package: programs in /usr/local/bin, a unit,
// configuration, and scripts that stop, disable and delete.
const (
	OldVersion   = "0.9.0"
	FiredFile    = "/var/log/needrestart-fired"
	GoAhead      = "/srv/go-ahead"
	PackagesUnit = "/lib/systemd/system/teleport.service"
	PackagesOwn  = LinkDir + "/fdpass-teleport"
)

// AgentWants is the link by which systemd starts the agent at boot.
const AgentWants = "/etc/systemd/system/multi-user.target.wants/teleport.service"

// removalScripts are what the package does when it is removed. With wait, the one
// of that name waits there until goAhead exists.
func removalScripts(wait string) (prerm, postrm string) {
	pause := func(name string) string {
		if name != wait {
			return ""
		}
		return "touch /srv/" + name + "; while [ ! -e " + GoAhead + " ]; do sleep 0.1; done\n"
	}
	prerm = "#!/bin/sh\nset -e\nsystemctl stop teleport.service\nsystemctl disable teleport.service\n" + pause("prerm")
	postrm = "#!/bin/sh\nset -e\n" + pause("postrm") +
		"rm -f /etc/teleport.yaml\nrm -rf /var/lib/teleport\nrm -f /etc/systemd/system/multi-user.target.wants/teleport.service\nsystemctl daemon-reload\n"
	return prerm, postrm
}

// packageTree lays out what the package holds, with its programs in oldDir.
func (s *Scene) packageTree(v, oldDir string) (dir string) {
	s.T.Helper()
	unpacked, dir := s.unpacked(v), s.T.TempDir()
	files := map[string]string{
		"/etc/teleport.yaml":    "teleport:\n  diag_addr: 127.0.0.1:3000\n",
		"/etc/default/teleport": "# from the package\n",
		PackagesUnit:            release.Unit{LinkDir: oldDir, RestartDelay: 300 * time.Millisecond}.Text(),
		PackagesOwn:             "#!/bin/sh\n",
	}
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		data, err := os.ReadFile(filepath.Join(unpacked, name))
		s.Check(err)
		files[oldDir+"/"+name] = string(data)
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		s.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		mode := os.FileMode(0o644)
		if strings.Contains(name, "/bin/") {
			mode = 0o755
		}
		s.Check(os.WriteFile(name, []byte(text), mode))
	}
	return dir
}

// OldDeb builds the package for apt.
func (s *Scene) OldDeb(v, wait string) string {
	s.T.Helper()
	return s.OldDebIn(LinkDir, v, wait)
}

// OldDebIn is OldDeb with its programs in another folder.
func (s *Scene) OldDebIn(binDir, v, wait string) string {
	s.T.Helper()
	dir := s.packageTree(v, binDir)
	prerm, postrm := removalScripts(wait)
	if wait == "fails" {
		prerm += "exit 1\n"
	}
	// Not on an upgrade; and at the purge that follows the removal, again.
	prerm = strings.Replace(prerm, "set -e\n", "set -e\n[ \"$1\" = remove ] || exit 0\n", 1)
	for name, text := range map[string]string{
		"control":   "Package: teleport\nVersion: " + v + "\nArchitecture: all\nMaintainer: test <test@localhost>\nDescription: stand-in\n",
		"conffiles": "/etc/teleport.yaml\n/etc/default/teleport\n",
		"postinst":  "#!/bin/sh\nset -e\nsystemctl daemon-reload\n",
		"prerm":     prerm,
		"postrm":    strings.Replace(postrm, "set -e\n", "set -e\ncase \"$1\" in remove|purge) ;; *) exit 0 ;; esac\n", 1),
	} {
		name = filepath.Join(dir, "DEBIAN", name)
		s.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		s.Check(os.WriteFile(name, []byte(text), 0o755))
	}
	s.Check(os.Chmod(filepath.Join(dir, "DEBIAN", "conffiles"), 0o644))
	deb := filepath.Join(s.T.TempDir(), "teleport_"+v+"_all.deb")
	if out, err := exec.CommandContext(s.T.Context(), "dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", dir, deb).CombinedOutput(); err != nil {
		s.T.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	return deb
}

// InstallOldDeb makes the host one that runs the agent from a package.
func (s *Scene) InstallOldDeb(wait string) {
	s.T.Helper()
	s.Must("rm", "/etc/teleport.yaml")
	s.AptRepository(s.OldDeb(OldVersion, wait))
	s.Apt("install", "teleport")
	// What needrestart hangs into apt and dpkg, and how it is told to be quiet.
	hook := "[ -n \"$NEEDRESTART_SUSPEND\" ] || touch " + FiredFile
	s.Write("/etc/apt/apt.conf.d/99needrestart", "DPkg::Post-Invoke {\"touch "+FiredFile+"\";};\n")
	s.Write("/etc/dpkg/dpkg.cfg.d/needrestart", "post-invoke="+hook+"\n")
	s.runOld()
}

func (s *Scene) runOld() {
	s.T.Helper()
	s.Must("systemctl", "enable", "--now", "teleport")
	s.RunsFrom(LinkDir + "/teleport")
	host.Wait(s.T, Patience, func() error {
		if s.RowsOf(OldVersion) == 0 {
			return fmt.Errorf("the agent has not written anything yet")
		}
		return nil
	})
}

// Taken asserts that nothing is left of the package, and all of the agent.
func (s *Scene) Taken(v string) {
	s.T.Helper()
	s.Serves(v)
	if out := s.Try("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport").Stdout; out != "" && out != "not-installed" {
		s.T.Errorf("dpkg says that the package is %s", out)
	}
	s.WholeAgent()
	if out := s.Must("dpkg", "--audit"); out != "" {
		s.T.Errorf("dpkg is not content:\n%s", out)
	}
}

// WholeAgent asserts that nothing is left of the package's own files, and all of
// what belongs to the agent.
func (s *Scene) WholeAgent() {
	s.T.Helper()
	for _, gone := range []string{PackagesUnit, PackagesOwn, FiredFile} {
		if s.Exists(gone) {
			s.T.Errorf("%s is there", gone)
		}
	}
	if got := s.Read("/etc/teleport.yaml"); !strings.Contains(got, "diag_addr") {
		s.T.Errorf("the agent's configuration is %q", got)
	}
	if got := s.Read("/etc/default/teleport"); got != "# from the package\n" {
		s.T.Errorf("the agent's environment is %q", got)
	}
	if s.RowsOf(OldVersion) == 0 {
		s.T.Error("the agent's rows are gone")
	}
	if got := strings.TrimSpace(s.Try("systemctl", "is-enabled", "teleport").Stdout); got != "enabled" {
		s.T.Errorf("the agent is %s; want enabled", got)
	}
	if got := s.Show("teleport", "FragmentPath"); got != UnitFile {
		s.T.Errorf("systemd uses the unit %s", got)
	}
	if got := s.Link(AgentWants); got != UnitFile {
		s.T.Errorf("%s leads to %q", AgentWants, got)
	}
	if strings.Contains(s.Must("cat", "/proc/mounts"), "/var/lib/teleport tmpfs") {
		s.T.Error("a mount of the fence is left")
	}
}

// Starts counts how often a version of the agent was started.
func (s *Scene) Starts(v string) int {
	s.T.Helper()
	return strings.Count(s.Log(""), "msg=Starting. version="+v+" ")
}

// InstallOldRPM makes the host one that runs the agent from a package of dnf's.
func (s *Scene) InstallOldRPM() {
	s.T.Helper()
	s.Must("rm", "/etc/teleport.yaml")
	s.DnfRepository(s.OldRPM(OldVersion))
	s.Dnf("install", "teleport")
	s.runOld()
}

// OldRPM builds the package for dnf, with the host's own rpmbuild.
func (s *Scene) OldRPM(v string) string {
	s.T.Helper()
	dir := s.packageTree(v, LinkDir)
	payload := "/srv/payload-" + v
	var files []string
	s.Check(filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		s.Put(name, path.Join(payload, rel))
		line := "/" + rel
		if strings.HasPrefix(line, "/etc/") {
			line = "%config(noreplace) " + line
		}
		files = append(files, line)
		return nil
	}))
	prerm, postrm := removalScripts("")
	script := func(text string) string {
		return strings.Replace(strings.TrimPrefix(text, "#!/bin/sh\n"), "set -e\n", "set -e\n[ \"$1\" = 0 ] || exit 0\n", 1)
	}
	s.Write("/srv/teleport.spec", "Name: teleport\nVersion: "+v+"\nRelease: 1\nSummary: stand-in\nLicense: none\nAutoReqProv: no\nProvides: /bin/sh\n"+
		"%global __os_install_post %{nil}\n%global debug_package %{nil}\n%description\nstand-in\n%install\ncp -a "+payload+"/. %{buildroot}/\n"+
		"%preun\n"+script(prerm)+"%postun\n"+script(postrm)+"%files\n"+strings.Join(files, "\n")+"\n")
	s.Must("rpmbuild", "--quiet", "-bb", "--define", "_topdir /srv/rpmbuild", "--define", "_rpmdir /srv/rpms", "/srv/teleport.spec")
	inside := s.Must("sh", "-c", "ls /srv/rpms/*/teleport-"+v+"-1.*.rpm")
	outside := filepath.Join(s.T.TempDir(), path.Base(inside))
	s.Check(os.WriteFile(outside, []byte(s.Read(inside)), 0o644))
	return outside
}
