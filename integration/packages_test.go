//go:build hosts

package integration

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

const (
	packaged   = "/usr/bin/teleport-update"
	packageOld = "1.0.0"
	packageNew = "1.1.0"
	aptFolder  = "/srv/apt"
	dnfFolder  = "/srv/dnf"
)

// manager of packages, on a host that has it.
type manager struct {
	name, format string
	host         host.Options
	repository   func(s *scene, packages ...string)
	run          func(s *scene, args ...string) string
	try          func(s *scene, args ...string) host.Result
	// To the old version, and away with the configuration.
	downgrade, purge []string
	// own is what changes with every package.
	own []string
}

var (
	usingApt = manager{
		name: "apt-get", format: "deb",
		repository: (*scene).aptRepository, run: (*scene).apt, try: (*scene).tryApt,
		downgrade: []string{"install", "--allow-downgrades", "teleport-update=" + packageOld},
		purge:     []string{"purge", "teleport-update"},
		own:       []string{"/etc/apt"},
	}
	usingDnf = manager{
		name: "dnf", format: "rpm", host: dnfHost,
		repository: (*scene).dnfRepository, run: (*scene).dnf, try: (*scene).tryDnf,
		downgrade: []string{"downgrade", "teleport-update"},
		purge:     []string{"remove", "teleport-update"},
		own:       []string{"/root/.rpmdb"},
	}
)

// eachManager runs a test under apt and under dnf.
func eachManager(t *testing.T, test func(t *testing.T, m manager)) {
	t.Helper()
	t.Run("apt", func(t *testing.T) { test(t, usingApt) })
	t.Run("dnf", func(t *testing.T) { test(t, usingDnf) })
}

var builtPackages struct {
	sync.Mutex
	paths map[string]string
}

// packageOf builds the package of a program for this machine, once for all tests,
// and returns its path.
func packageOf(t *testing.T, program, version, format string) string {
	t.Helper()
	builtPackages.Lock()
	defer builtPackages.Unlock()
	key := program + version + format
	if p, ok := builtPackages.paths[key]; ok {
		return p
	}
	paths, err := packaging.Build(t.Context(), packaging.Options{
		Module: "..", Out: "../build/test/packages", Version: version, Date: time.Unix(1700000000, 0),
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

// aptRepository makes these packages what apt can install, and nothing else: hosts
// have no network.
func (s *scene) aptRepository(debs ...string) {
	s.t.Helper()
	var index strings.Builder
	for _, deb := range debs {
		name := filepath.Base(deb)
		s.check(s.CopyIn(deb, path.Join(aptFolder, name), 0o644))
		control, err := exec.Command("dpkg-deb", "--field", deb).Output()
		s.check(err)
		data, err := os.ReadFile(deb)
		s.check(err)
		fmt.Fprintf(&index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(string(control)), name, len(data), sha256.Sum256(data))
	}
	s.Write(aptFolder+"/Packages", index.String())
	s.Must("rm", "-rf", "/etc/apt/sources.list.d")
	s.Write("/etc/apt/sources.list", "deb [trusted=yes] file:"+aptFolder+" ./\n")
	s.apt("update")
}

// apt runs apt-get as an operator does, and returns what it printed.
func (s *scene) apt(args ...string) string {
	s.t.Helper()
	r := s.tryApt(args...)
	if r.Code != 0 {
		s.t.Fatalf("apt-get %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

func (s *scene) tryApt(args ...string) host.Result {
	s.t.Helper()
	r, err := s.RunCommand(s.t.Context(), host.Command{
		Args: append([]string{"apt-get", "--yes", "--quiet", "--option=Dpkg::Use-Pty=0"}, args...),
		Env:  []string{"DEBIAN_FRONTEND=noninteractive"},
	})
	s.check(err)
	return r
}

// dnfHost is a Debian with dnf, and with a database of rpm's that knows nothing
// of dpkg's.
var dnfHost = host.Options{Packages: []string{"createrepo-c", "dnf", "rpm"}}

// dnfRepository makes these packages what dnf can install, and nothing else.
func (s *scene) dnfRepository(rpms ...string) {
	s.t.Helper()
	for _, rpm := range rpms {
		s.check(s.CopyIn(rpm, path.Join(dnfFolder, filepath.Base(rpm)), 0o644))
	}
	s.Must("createrepo_c", "--quiet", dnfFolder)
	s.Write("/etc/yum.repos.d/test.repo", "[test]\nname=test\nbaseurl=file://"+dnfFolder+"\ngpgcheck=0\nmetadata_expire=0\n")
}

// dnf runs dnf as an operator does, and returns what it printed.
func (s *scene) dnf(args ...string) string {
	s.t.Helper()
	r := s.tryDnf(args...)
	if r.Code != 0 {
		s.t.Fatalf("dnf %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

func (s *scene) tryDnf(args ...string) host.Result {
	s.t.Helper()
	return s.Try(append([]string{"dnf", "--assumeyes", "--releasever=1"}, args...)...)
}

func (s *scene) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// identity of the running agent: a restart changes it, a handover its process. That
// is the one which the PID file names, if there is one: systemd learns of a handover
// when the process before has left.
func (s *scene) agentProcess() string {
	s.t.Helper()
	pid, _ := s.ReadFile("/run/teleport.pid")
	return s.Show("teleport", "InvocationID") + " " + strings.TrimSpace(string(pid))
}

// untouched runs change, which must leave the agent, its configuration, its data
// and the updater's state alone.
func (s *scene) untouched(what string, change func()) {
	s.t.Helper()
	paths := []string{"/etc/teleport.yaml", "/usr/local", "/var/lib/teleport"}
	except := []string{agentState, store + "/update.lock"} // the lock says who held it last
	process, before := s.agentProcess(), s.Tree(paths...)
	change()
	if diff := before.Without(except...).Diff(s.Tree(paths...).Without(except...)); len(diff) > 0 {
		s.t.Errorf("%s changed:\n%s", what, strings.Join(diff, "\n"))
	}
	if now := s.agentProcess(); now != process {
		s.t.Errorf("%s: the agent was %s and is %s", what, process, now)
	}
}

// updaterInstalled asserts which version of the package is there and that its
// units, and none of the updater's own, are in use.
func (s *scene) updaterInstalled(version string) {
	s.t.Helper()
	if got := s.Must(packaged, "version"); !strings.HasPrefix(got, "teleport-update "+version+" ") {
		s.t.Errorf("%s is %q; want version %s", packaged, got, version)
	}
	for unit, state := range map[string]string{
		"teleport-update.timer": "active", "teleport-update.service": "inactive", "teleport-update-recover.service": "inactive",
	} {
		u, err := s.Unit(s.t.Context(), unit)
		s.check(err)
		if fragment := u["FragmentPath"]; fragment != "/usr/lib/systemd/system/"+unit && fragment != "/lib/systemd/system/"+unit {
			s.t.Errorf("%s is read from %q", unit, fragment)
		}
		if u["ActiveState"] != state || u["NeedDaemonReload"] != "no" {
			s.t.Errorf("%s is %s; want %s; it needs a daemon-reload: %s", unit, u["ActiveState"], state, u["NeedDaemonReload"])
		}
		if enabled := u["UnitFileState"]; unit != "teleport-update.service" && enabled != "enabled" {
			s.t.Errorf("%s is %s", unit, enabled)
		}
		if exec := u["ExecStart"]; exec != "" && !strings.Contains(exec, "path="+packaged+" ") {
			s.t.Errorf("%s runs %s", unit, exec)
		}
	}
	names, _ := s.Names("/usr/local/lib/systemd/system")
	for _, name := range names {
		if strings.HasPrefix(name, "teleport-update") {
			s.t.Errorf("%s was written beside the package's", name)
		}
	}
	if s.Exists("/var/lib/teleport/updater") {
		s.t.Errorf("the updater copied itself beside the package's program")
	}
}
