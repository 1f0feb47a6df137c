package scenes

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/packaging"
)

// The updater's package: its program, and the versions that tests build.
const (
	Packaged   = "/usr/bin/teleport-update"
	PackageOld = "1.0.0"
	PackageNew = "1.1.0"
	aptFolder  = "/srv/apt"
	dnfFolder  = "/srv/dnf"
)

var builtPackages struct {
	sync.Mutex
	paths map[string]string
}

// PackageOf builds the package of a program for this machine, once for all tests,
// and returns its path.
func PackageOf(t *testing.T, program, version, format string) string {
	t.Helper()
	builtPackages.Lock()
	defer builtPackages.Unlock()
	key := program + version + format
	if p, ok := builtPackages.paths[key]; ok {
		return p
	}
	module, err := host.Module()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := packaging.Build(t.Context(), packaging.Options{
		Module: module, Out: filepath.Join(module, "build", "test", "packages"), Version: version, Date: time.Unix(1700000000, 0),
		Arch: []string{runtime.GOARCH}, Formats: []string{"deb", "rpm"}, Programs: []string{program},
	})
	if err != nil {
		t.Fatal(err)
	}
	if builtPackages.paths == nil {
		builtPackages.paths = map[string]string{}
	}
	for _, p := range paths {
		builtPackages.paths[program+version+strings.TrimPrefix(filepath.Ext(p), ".")] = p
	}
	return builtPackages.paths[key]
}

// AptRepository makes these packages what apt can install, and nothing else: hosts
// have no network.
func (s *Scene) AptRepository(debs ...string) {
	s.T.Helper()
	var index strings.Builder
	for _, deb := range debs {
		name := filepath.Base(deb)
		s.Check(s.CopyIn(deb, path.Join(aptFolder, name), 0o644))
		control, err := exec.Command("dpkg-deb", "--field", deb).Output()
		s.Check(err)
		data, err := os.ReadFile(deb)
		s.Check(err)
		fmt.Fprintf(&index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(string(control)), name, len(data), sha256.Sum256(data))
	}
	s.Write(aptFolder+"/Packages", index.String())
	s.Must("rm", "-rf", "/etc/apt/sources.list.d")
	s.Write("/etc/apt/sources.list", "deb [trusted=yes] file:"+aptFolder+" ./\n")
	s.Apt("update")
}

// Apt runs apt-get as an operator does, and returns what it printed.
func (s *Scene) Apt(args ...string) string {
	s.T.Helper()
	r := s.TryApt(args...)
	if r.Code != 0 {
		s.T.Fatalf("apt-get %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

// TryApt is Apt for what may fail.
func (s *Scene) TryApt(args ...string) host.Result {
	s.T.Helper()
	r, err := s.RunCommand(s.T.Context(), host.Command{
		Args: append([]string{"apt-get", "--yes", "--quiet", "--option=Dpkg::Use-Pty=0"}, args...),
		Env:  []string{"DEBIAN_FRONTEND=noninteractive"},
	})
	s.Check(err)
	return r
}

// DnfHost is a Debian with dnf, and with a database of rpm's that knows nothing
// of dpkg's. One root serves all tests of rpms: some of them need zypper, and wget.
var DnfHost = host.Options{Packages: []string{"createrepo-c", "dnf", "rpm", "wget", "zypper"}}

// DnfRepository makes these packages what dnf can install, and nothing else.
func (s *Scene) DnfRepository(rpms ...string) {
	s.T.Helper()
	for _, rpm := range rpms {
		s.Check(s.CopyIn(rpm, path.Join(dnfFolder, filepath.Base(rpm)), 0o644))
	}
	s.Must("createrepo_c", "--quiet", dnfFolder)
	s.Write("/etc/yum.repos.d/test.repo", "[test]\nname=test\nbaseurl=file://"+dnfFolder+"\ngpgcheck=0\nmetadata_expire=0\n")
}

// Dnf runs dnf as an operator does, and returns what it printed.
func (s *Scene) Dnf(args ...string) string {
	s.T.Helper()
	r := s.TryDnf(args...)
	if r.Code != 0 {
		s.T.Fatalf("dnf %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

// TryDnf is Dnf for what may fail.
func (s *Scene) TryDnf(args ...string) host.Result {
	s.T.Helper()
	return s.Try(append([]string{"dnf", "--assumeyes", "--releasever=1"}, args...)...)
}

// UpdaterInstalled asserts which version of the package is there and that its
// units, and none of the updater's own, are in use.
func (s *Scene) UpdaterInstalled(version string) {
	s.T.Helper()
	if got := s.Must(Packaged, "version"); !strings.HasPrefix(got, "teleport-update "+version+" ") {
		s.T.Errorf("%s is %q; want version %s", Packaged, got, version)
	}
	for unit, state := range map[string]string{
		"teleport-update.timer": "active", "teleport-update.service": "inactive", "teleport-update-recover.service": "inactive",
	} {
		u, err := s.Unit(s.T.Context(), unit)
		s.Check(err)
		if fragment := u["FragmentPath"]; fragment != "/usr/lib/systemd/system/"+unit && fragment != "/lib/systemd/system/"+unit {
			s.T.Errorf("%s is read from %q", unit, fragment)
		}
		if u["ActiveState"] != state || u["NeedDaemonReload"] != "no" {
			s.T.Errorf("%s is %s; want %s; it needs a daemon-reload: %s", unit, u["ActiveState"], state, u["NeedDaemonReload"])
		}
		if enabled := u["UnitFileState"]; unit != "teleport-update.service" && enabled != "enabled" {
			s.T.Errorf("%s is %s", unit, enabled)
		}
		if exec := u["ExecStart"]; exec != "" && !strings.Contains(exec, "path="+Packaged+" ") {
			s.T.Errorf("%s runs %s", unit, exec)
		}
	}
	names, _ := s.Names("/usr/local/lib/systemd/system")
	for _, name := range names {
		if strings.HasPrefix(name, "teleport-update") {
			s.T.Errorf("%s was written beside the package's", name)
		}
	}
	if s.Exists("/var/lib/teleport/updater") {
		s.T.Errorf("the updater copied itself beside the package's program")
	}
}
