//go:build hosts

package guides

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

// builder is where an image is made: a root file system without a systemd, and
// below /mnt/image the same again, to chroot into. Of what the kernel shows there is
// /proc alone in there, as in the plainest of image builds.
type builder struct {
	*host.Test
	*world
	t *testing.T
}

const image = "/mnt/image"

func newBuilder(t *testing.T) *builder {
	t.Helper()
	t.Parallel()
	b := builderIn(t, newWorld(t))
	b.offersPackages()
	deb := fmt.Sprintf("teleport-update_1.2.3_%s.deb", runtime.GOARCH)
	check(t, b.CopyIn(filepath.Join(b.packages, deb), "/root/teleport-update.deb", 0o644))
	return b
}

func builderIn(t *testing.T, w *world) *builder {
	t.Helper()
	h := host.ForTest(t, host.Options{Packages: hostPackages, Plain: true})
	b := &builder{Test: h, world: w, t: t}
	b.world.on(h)
	b.introduce(h)
	b.Must("mkdir", image)
	b.Must("mount", "--bind", "/", image)
	b.Must("mount", "-t", "proc", "proc", image+"/proc")
	// What makes locales, keys for sshd and sources for apt is of no use here, and
	// takes most of the time of a boot.
	b.Write("/etc/cloud/cloud.cfg.d/90-small.cfg",
		"cloud_init_modules: [write-files, set_hostname]\ncloud_config_modules: [runcmd]\ncloud_final_modules: [scripts-user]\n")
	check(t, h.CopyIn(filepath.Join(module, "packaging/cloud-init/seal-image.sh"), "/root/seal-image.sh", 0o755))
	return b
}

// in runs a command in the image.
func (b *builder) in(args ...string) string {
	b.t.Helper()
	return b.Must(append([]string{"chroot", image}, args...)...)
}

// machine boots a new machine from the image, with that user data for cloud-init.
// It is in a network of its own, see world.on.
func (b *builder) machine(userData string) *host.Test {
	b.t.Helper()
	m := host.MadeForTest(b.t, host.Options{Packages: hostPackages})
	copyTree(b.t, filepath.Join(b.Dir, "root"), filepath.Join(m.Dir, "root"), "etc", "opt/teleport-update", "usr/bin", "usr/lib/systemd", "usr/local", "var/lib/dpkg", "var/lib/systemd", "var/lib/teleport")
	m.Write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: "+m.Name+"\nlocal-hostname: "+m.Name+"\n")
	m.Write("/var/lib/cloud/seed/nocloud/user-data", userData)
	return m
}

func copyTree(t *testing.T, from, to string, paths ...string) {
	t.Helper()
	var present []string
	for _, p := range paths {
		if _, err := os.Lstat(filepath.Join(from, p)); err == nil {
			present = append(present, p)
		}
	}
	out, err := exec.Command("sh", append([]string{"-c", `from=$1 to=$2; shift 2; tar -C "$from" -cf - "$@" | tar -C "$to" --unlink-first --recursive-unlink -xpf -`, "sh", from, to}, present...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("copy the image: %v\n%s", err, out)
	}
}

func boot(t *testing.T, m *host.Test) {
	t.Helper()
	check(t, m.Boot(t.Context()))
	if status := m.Try("cloud-init", "status", "--wait"); !strings.Contains(status.Stdout, "status: done") {
		t.Fatalf("cloud-init: %s%s\n%s", status.Stdout, status.Stderr, m.Must("tail", "-n", "60", "/var/log/cloud-init-output.log"))
	}
}

// userData is an example of the repository with the token filled in.
func userData(t *testing.T, name, token string) string {
	t.Helper()
	text := file(t, "packaging/cloud-init/"+name)
	filled := strings.Replace(text, "      TOKEN\n", "      "+token+"\n", 1)
	if filled == text {
		t.Fatalf("%s has no place for a token", name)
	}
	return filled
}

// identities are what must differ between two machines.
func identities(t *testing.T, m *host.Test) (machineID, hostUUID string) {
	t.Helper()
	machineID, hostUUID = strings.TrimSpace(m.Read("/etc/machine-id")), strings.TrimSpace(m.Read("/var/lib/teleport/host_uuid"))
	if len(machineID) != 32 || len(hostUUID) != 36 {
		t.Errorf("the machine id is %q, the agent's host id %q", machineID, hostUUID)
	}
	return machineID, hostUUID
}

// sealed makes the image ready and asserts that nothing in it names the machine
// that made it.
func (b *builder) sealed() {
	b.t.Helper()
	id := strings.TrimSpace(b.Read("/etc/machine-id"))
	b.Must("/root/seal-image.sh", image)
	for what, secret := range map[string]string{"machine id": id, "host id": "0f2c6f6e-8a3b-4c55-9d40-2f5a0a5f7c11", "token": "SECRET"} {
		r := b.Try("grep", "-rlFI", "--exclude=seal-image.sh", secret, image+"/etc", image+"/var/lib/teleport", image+"/var/lib/systemd", image+"/var/lib/dbus", image+"/var/lib/cloud", image+"/usr/local")
		if r.Stdout != "" {
			b.t.Errorf("the %s is in the image: %s", what, r.Stdout)
		}
	}
	if info, err := b.Lstat(image + "/etc/machine-id"); err != nil || info.Size() != 0 {
		b.t.Errorf("the image's machine id: %v, %v", info, err)
	}
}

// RFD 0169, Installers, first workflow.
func TestAnImageWithTheUpdaterIsEnabledAtFirstBoot(t *testing.T) {
	b := newBuilder(t)
	b.sound("1.0.0", "1.1.0")
	b.in("dpkg", "-i", "/root/teleport-update.deb")
	b.sealed()
	if b.Exists(store) || b.Exists(linkDir+"/teleport") {
		t.Error("the image has a version already")
	}

	b.wants("1.0.0")
	m := b.machine(userData(t, "enable-at-first-boot.yaml", "one-time-token"))
	b.on(m)
	boot(t, m)
	runs(t, m, "1.0.0")
	if got := m.Show("teleport", "UnitFileState"); got != "enabled" {
		t.Errorf("the agent's unit is %s", got)
	}
	if got := m.Show("teleport-update.timer", "ActiveState"); got != "active" {
		t.Errorf("the timer is %s", got)
	}
	if info, err := m.Lstat("/etc/teleport-token"); err != nil || info.Mode().Perm() != 0o600 || m.Read("/etc/teleport-token") != "one-time-token\n" {
		t.Errorf("the token's file: %v, %v", info, err)
	}
	m.Must("teleport-update", "verify")

	// The install script goes on to work, and installs nothing.
	b.requests("")
	m.Must("sh", "-c", install+"sh -eu")
	if asked := b.requests("/packages"); len(asked) > 0 {
		t.Errorf("the install script asked for %q", asked)
	}

	// A reboot starts what runs, and the machine follows its cluster.
	check(t, m.Reboot(t.Context()))
	runs(t, m, "1.0.0")
	b.wants("1.1.0")
	m.Must("systemctl", "start", "teleport-update.service")
	runs(t, m, "1.1.0")
}

// RFD 0169, Installers, second workflow.
func TestABakedVersionStartsWithTheTokenAlone(t *testing.T) {
	b := newBuilder(t)
	b.sound("1.0.0", "1.1.0")
	b.wants("1.0.0")
	b.in("dpkg", "-i", "/root/teleport-update.deb")
	b.in("teleport-update", "enable", "--proxy", "mytenant.teleport.sh")
	check(t, b.CopyIn(filepath.Join(module, "packaging/cloud-init/teleport.yaml"), image+"/etc/teleport.yaml", 0o600))

	// What somebody could leave in an image: a token, and the state of an agent
	// that was started to try it.
	b.Write("/etc/teleport-token", "SECRET\n")
	if r := b.Try("/root/seal-image.sh", image); r.Code != 1 || !strings.Contains(r.Stderr, "is a token") {
		t.Errorf("an image with a token: exit code %d\n%s", r.Code, r.Stderr)
	}
	b.Must("rm", "/etc/teleport-token")
	plain := b.Read("/etc/teleport.yaml")
	b.Write("/etc/teleport.yaml", strings.Replace(plain, "/etc/teleport-token", "SECRET", 1))
	if r := b.Try("/root/seal-image.sh", image); r.Code != 1 || !strings.Contains(r.Stderr, "holds a token") {
		t.Errorf("a configuration with a token: exit code %d\n%s", r.Code, r.Stderr)
	}
	b.Write("/etc/teleport.yaml", plain)
	b.Write("/var/lib/teleport/host_uuid", "0f2c6f6e-8a3b-4c55-9d40-2f5a0a5f7c11\n")
	b.Write("/var/lib/teleport/proc/sqlite.db", "state of 0f2c6f6e-8a3b-4c55-9d40-2f5a0a5f7c11")
	b.sealed()

	// Nothing answers at the proxy's name when the machines come up.
	machines := []*host.Test{b.machine(userData(t, "token-only.yaml", "one")), b.machine(userData(t, "token-only.yaml", "two"))}
	for i, m := range machines {
		boot(t, m)
		runs(t, m, "1.0.0")
		if got, want := m.Read("/etc/teleport-token"), []string{"one\n", "two\n"}[i]; got != want {
			t.Errorf("the token is %q; want %q", got, want)
		}
		m.Must("teleport-update", "verify")
	}
	firstID, firstUUID := identities(t, machines[0])
	secondID, secondUUID := identities(t, machines[1])
	if firstID == secondID || firstUUID == secondUUID {
		t.Errorf("two machines are one: %s and %s, %s and %s", firstID, secondID, firstUUID, secondUUID)
	}

	// Once the network is there, they follow the cluster.
	b.on(machines[0])
	b.wants("1.1.0")
	machines[0].Must("systemctl", "start", "teleport-update.service")
	runs(t, machines[0], "1.1.0")
	if got := b.requests("/v1/webapi/find"); len(got) == 0 || !strings.HasSuffix(got[len(got)-1], "host="+firstUUID) {
		t.Errorf("find was asked %q; want the host id %s", got, firstUUID)
	}
}
