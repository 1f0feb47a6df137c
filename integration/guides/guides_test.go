//go:build hosts

package guides

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/markdown"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// scene is the host of some blocks of a guide.
type scene struct {
	*host.Test
	t    *testing.T
	seen string // what the last block of commands printed
	// server is what the last block has started, if it runs until it is stopped
	server *host.Process
}

// work is the folder that people of the guides are in: a checkout in which
// "make build" and "make packages" were run.
const work = "/root/teleport-update"

// Every command of the README and of docs/ is run as it is printed, on hosts that
// know the names in it; see block for what is not.
func TestGuides(t *testing.T) {
	t.Parallel()
	for _, guide := range guides(t) {
		blocks, err := markdown.Read(guide, file(t, guide))
		if err != nil {
			t.Error(err)
			continue
		}
		if ofACheckout(guide) || markdown.NeedsHosts(blocks) {
			continue
		}
		for i, group := range byHost(blocks) {
			t.Run(fmt.Sprintf("%s:%d", guide, i+1), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, group)
				for i, b := range group {
					shows := i+1 < len(group) && group[i+1].IsShown()
					s.block(b, shows)
					if shows {
						s.compare(group[i+1])
					}
				}
				if i == 0 {
					s.spans(guide, file(t, guide))
				}
				if guide == "docs/migrating.md" {
					s.takenOver()
				}
			})
		}
	}
}

// byHost divides the blocks into those that run on one host. Blocks before the
// first that is run, and guides without any, need none.
func byHost(blocks []markdown.Block) (groups [][]markdown.Block) {
	var current []markdown.Block
	runs := false
	end := func() {
		if runs {
			groups = append(groups, current)
		}
		current, runs = nil, false
	}
	for _, b := range blocks {
		_, newHost := b.Mark("a new host")
		_, image := b.Mark("an image build")
		if newHost || image {
			end()
		}
		current = append(current, b)
		runs = runs || b.IsRun()
	}
	end()
	return groups
}

func newScene(t *testing.T, blocks []markdown.Block) *scene {
	t.Helper()
	w := worldWith(t, publishedReleases(t), packages(t))
	w.wants("15.1.1")
	w.offersRepository()
	s := &scene{t: t}
	kind, image := "", false
	for _, b := range blocks {
		if k, ok := b.Mark("a new host"); ok {
			kind = k
		}
		if _, ok := b.Mark("an image build"); ok {
			image = true
		}
	}
	switch {
	case image:
		s.Test = builderIn(t, w).Test
	case kind == publishing:
		// The larger root begins with this one.
		_, err := host.Root(t.Context(), host.DefaultSuite, hostPackages...)
		check(t, err)
		s.Test = siteOn(t, w, host.Options{Packages: slices.Concat(hostPackages, publishingPackages)}).Test
	default:
		s.Test = siteIn(t, w).Test
	}
	s.Put(program(t, host.Find()), "/usr/bin/teleport-find")
	s.Write("/etc/ssl/example-ca.pem", string(w.caPEM))
	s.Write("/etc/teleport.yaml", "teleport:\n  proxy_server: mytenant.teleport.sh:443\n  diag_addr: 127.0.0.1:3000\n")
	s.Put(program(t, host.Updater()), work+"/build/bin/teleport-update")
	s.Put(program(t, host.Find()), work+"/build/bin/teleport-find")
	for _, script := range []string{"sign.sh", "publish.sh"} {
		s.check(s.CopyIn(filepath.Join(module, "packaging", script), work+"/packaging/"+script, 0o755))
	}
	for _, dir := range []string{"packaging/cloud-init", "packaging/automation", "packaging/installscript", "packaging/teleport-update"} {
		s.copyIn(filepath.Join(module, dir), work+"/"+dir)
	}
	for _, dir := range []string{work, work + "/build/packages", "/srv/packages"} {
		s.copyIn(packages(t), dir)
	}
	for _, suffix := range []string{"", ".sha256"} {
		name := release.Name("1.1.0", version.OSS) + suffix
		s.check(s.CopyIn(filepath.Join(publishedReleases(t), name), "/srv/releases/"+name, 0o644))
	}
	// Other machines are this one: ssh and Ansible go no further.
	s.check(s.WriteFile("/usr/local/sbin/ssh", []byte("#!/bin/sh\nshift\nexec \"$@\"\n"), 0o755))
	s.Write(work+"/host_vars/web-1.example.com.yml", "ansible_connection: local\nansible_python_interpreter: /usr/bin/python3\nteleport_watch_seconds: 3\n")
	switch kind {
	case "", publishing:
	case "with the package teleport":
		s.installTeleportPackage()
	case "with a full disk":
		s.fillDisk(w)
	default:
		s.from(kind)
	}
	return s
}

func (s *scene) copyIn(from, to string) {
	s.t.Helper()
	s.check(filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return s.CopyIn(path, to+strings.TrimPrefix(path, from), info.Mode().Perm())
	}))
}

func (s *scene) check(err error) {
	s.t.Helper()
	check(s.t, err)
}

// environment is what differs from a person's shell: waits are shorter, but long
// enough for a busy machine.
var environment = []string{"WATCH=10", "SYSTEMD_PAGER=cat", "DEBIAN_FRONTEND=noninteractive"}

// blockLimit is how long a block of commands may take, on a slow machine.
const blockLimit = 15 * time.Minute

func (s *scene) command(b markdown.Block) host.Command {
	text := strings.ReplaceAll(b.Text, "amd64.deb", runtime.GOARCH+".deb")
	return host.Command{Args: []string{"sh", "-euc", "cd " + work + "\n" + text}, Env: environment}
}

// block runs a block: on a terminal where the guide shows what one sees there.
func (s *scene) block(b markdown.Block, terminal bool) {
	s.t.Helper()
	if name, ok := b.Mark("file"); ok {
		s.file(b, name)
	}
	if !b.IsRun() {
		return
	}
	if _, ok := b.Mark("runs until stopped"); ok {
		p := s.Background(s.command(b))
		host.Wait(s.t, 30*time.Second, func() error {
			if out, errors := p.Output(); !strings.Contains(out, "listening on ") {
				return fmt.Errorf("%s does not listen:\n%s%s", b, out, errors)
			}
			return nil
		})
		s.server = p
		return
	}
	ctx, cancel := context.WithTimeoutCause(s.t.Context(), blockLimit, fmt.Errorf("%s does not end: is it a server?", b))
	defer cancel()
	c := s.command(b)
	if terminal {
		c = markdown.OnTerminal(c)
	}
	r, err := s.RunCommand(ctx, c)
	s.check(err)
	s.seen, s.server = r.Stdout, nil
	if _, silent := b.Mark("silent"); silent && r.Stdout+r.Stderr != "" {
		s.t.Errorf("%s prints\n%s%s", b, r.Stdout, r.Stderr)
	}
	if r.Code != 0 {
		s.t.Fatalf("%s: exit code %d\n%s\n%s%s", b, r.Code, b.Text, r.Stdout, r.Stderr)
	}
}

func (s *scene) file(b markdown.Block, name string) {
	s.t.Helper()
	name, from, copied := strings.Cut(name, " from ")
	if !filepath.IsAbs(name) {
		name = work + "/" + name
	}
	if copied {
		s.Must("cp", from, name)
		return
	}
	s.Write(name, b.Text)
}

// ofAServer are the guides on whose first host a find server runs.
var ofAServer = []string{"docs/find.md", "docs/notifications.md"}

// spans runs what the text of a guide mentions of these programs; of teleport-find what is whole as it stands, on
// the host of a server.
func (s *scene) spans(guide, text string) {
	s.t.Helper()
	for _, m := range span.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		switch fields := strings.Fields(m[1]); fields[0] {
		case "systemctl", "journalctl", "chmod", "teleport-find":
			if len(fields) == 1 || fields[0] == "teleport-find" && (!slices.Contains(ofAServer, guide) || fields[1] == "serve" || fields[1] == "simulate" || unfinished.MatchString(m[1])) {
				continue
			}
			if r, err := s.RunCommand(s.t.Context(), host.Command{Args: fields, Env: environment}); err != nil || r.Code != 0 {
				s.t.Errorf("`%s`: exit code %d, %v\n%s%s", m[1], r.Code, err, r.Stdout, r.Stderr)
			}
		}
	}
}

// fenced is what is run as a block, or what a screen shows.
var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

// unfinished is a command with a word that people replace, or that lacks its file.
var unfinished = regexp.MustCompile(` ([A-Z]+|apply)$`)

// installTeleportPackage brings the agent of an older version, in a package of the
// name and the layout of Teleport's, and starts it.
func (s *scene) installTeleportPackage() {
	s.t.Helper()
	tarball := release.Name("15.1.0", version.OSS)
	s.check(s.CopyIn(filepath.Join(publishedReleases(s.t), tarball), "/tmp/package/release.tar.gz", 0o644))
	s.Write("/tmp/package/DEBIAN/control", "Package: teleport\nVersion: 15.1.0\nArchitecture: "+runtime.GOARCH+"\nMaintainer: nobody <nobody@example.com>\nDescription: stand-in\n")
	s.Must("sh", "-euc", `cd /tmp/package
mkdir -p usr/local/bin lib/systemd/system
tar -xzf release.tar.gz
mv teleport/teleport teleport/tsh teleport/tctl teleport/tbot usr/local/bin/
cp teleport/examples/systemd/teleport.service lib/systemd/system/
rm -r release.tar.gz teleport
dpkg-deb --root-owner-group -Znone --build . /tmp/teleport.deb
dpkg -i /tmp/teleport.deb
systemctl enable --now teleport`)
}

// fillDisk leaves the host no room for the version that it wants.
func (s *scene) fillDisk(w *world) {
	s.t.Helper()
	s.Must("mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "tmpfs", "/opt")
	s.Must("sh", "-euc", `dpkg -i `+work+`/teleport-update_1.2.3_*.deb
teleport-update enable --proxy mytenant.teleport.sh
systemctl enable --now teleport`)
	w.wants("15.2.0")
	s.Try("dd", "if=/dev/zero", "of=/opt/dump.sql", "bs=1M")
	if r := s.Try("systemctl", "start", "teleport-update.service"); r.Code == 0 {
		s.t.Fatal("the host has updated: its disk is not full")
	}
}

// from makes the host one that somebody else looks after.
func (s *scene) from(kind string) {
	s.t.Helper()
	other := &scenes.Scene{Test: s.Test, Cluster: cluster.New(s.t, s.Test), T: s.t}
	switch kind {
	case "with Teleport's own updater":
		other.InstallOwnUpdater("15.1.0", "  proxy: mytenant.teleport.sh:443", "  group: staging")
	case "with teleport-upgrade":
		s.installTeleportPackage()
		other.Put(other.UpgradeDeb(), "/tmp/upgrade.deb")
		other.Must("dpkg", "-i", "/tmp/upgrade.deb")
	case "with a package of 17.3":
		other.Put(other.SystemDeb("15.1.0"), "/tmp/teleport.deb")
		other.Must("dpkg", "-i", "/tmp/teleport.deb")
		other.Must("systemctl", "enable", "--now", "teleport")
		other.RunsFrom(scenes.SystemDir + "/bin/teleport")
	default:
		s.t.Fatalf("no host is %q", kind)
	}
}

// takenOver asserts what the guide says of the package.
func (s *scene) takenOver() {
	s.t.Helper()
	for _, path := range append([]string{"/lib/systemd/system/teleport-upgrade.timer"}, scenes.OthersFiles[:5]...) {
		if s.Exists(path) {
			s.t.Errorf("of the other updater there is %s", path)
		}
	}
	if r := s.Try("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport"); r.Code == 0 && r.Stdout == "installed" {
		s.t.Error("the package teleport is still installed")
	}
	runs(s.t, s.Test, "15.1.1")
}

// publishedReleases is a folder with all releases that the guides name.
func publishedReleases(t *testing.T) string {
	t.Helper()
	releasesOnce.Do(func() {
		dir := filepath.Join(module, "build", "test", "guides-releases")
		check(t, os.RemoveAll(dir))
		check(t, os.MkdirAll(dir, 0o755))
		for _, v := range []string{"1.1.0", "15.1.0", "15.1.1", "15.2.0"} {
			for _, e := range []version.Edition{version.OSS, version.Enterprise} {
				buildRelease(t, dir, release.Spec{Version: v, Edition: e})
			}
		}
		// Of other machines only the names matter: they are mirrored, not run.
		other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
		entries, err := os.ReadDir(dir)
		check(t, err)
		for _, e := range entries {
			check(t, os.Link(filepath.Join(dir, e.Name()), filepath.Join(dir, strings.Replace(e.Name(), runtime.GOARCH, other, 1))))
		}
		releasesDir = dir
	})
	if releasesDir == "" {
		t.Fatal("the releases could not be built")
	}
	return releasesDir
}

var (
	releasesOnce sync.Once
	releasesDir  string
)

// helpOf is what a program says of one of its commands, or of itself; "" where there
// is no such command.
func helpOf(t *testing.T, name, command string) string {
	t.Helper()
	p := host.Updater()
	if name == "teleport-find" {
		p = host.Find()
	}
	args := []string{"--help"}
	if command != "" {
		args = []string{command, "--help"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), host.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program(t, p), args...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}
