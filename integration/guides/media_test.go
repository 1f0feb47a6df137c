//go:build hosts

package guides

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

// fillMedia mounts a medium, mirrors onto it twice, takes it out, and reads it again
// after it was put back: for nobody else, and gone with the script, whatever ends it.
const fillMedia = `
insert() {
	loop=$(losetup --find --show "$1")
	$2 "$loop" "$3" >/dev/null
	losetup --detach "$loop" # once it is no longer mounted
}
image=$1 mount=$2 dir=$3
shift 3
insert "$image" "$mount" "$dir"
if ln -s nowhere "$dir/link" 2>/dev/null; then echo "the medium knows links: this shows nothing"; exit 1; fi
"$@"
"$@"
umount "$dir"
insert "$image" "$mount" "$dir"
cd "$dir/releases"
sha256sum --check ./*.sha256
ls -A
cd /
umount "$dir"
`

// Media that people carry have file systems without links, owners and modes.
func TestAMirrorOnRemovableMedia(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("mounts need root")
		}
		t.Skip("SKIPPED, nothing was tested: mounts need root")
	}
	w := newWorld(t)
	w.sound("1.0.0", "1.1.0")
	for _, m := range []struct{ system, format, mount, pkg string }{
		{"vfat", "mkfs.vfat", "mount -t vfat", "dosfstools"},
		// By a program, since few kernels of servers have it.
		{"exfat", "mkfs.exfat", "mount.exfat-fuse", "exfatprogs exfat-fuse"},
	} {
		t.Run(m.system, func(t *testing.T) {
			if known, err := os.ReadFile("/proc/filesystems"); err != nil || m.system == "vfat" && !strings.Contains(string(known), "\tvfat\n") {
				t.Skip("SKIPPED, nothing was tested: this kernel has no vfat")
			}
			for _, tool := range []string{m.format, strings.Fields(m.mount)[0]} {
				if _, err := exec.LookPath(tool); err != nil {
					check(t, host.Install(t.Context(), strings.Fields(m.pkg)...))
				}
			}
			image, dir := filepath.Join(t.TempDir(), "medium"), t.TempDir()
			check(t, os.WriteFile(image, nil, 0o600))
			check(t, os.Truncate(image, 256<<20))
			if out, err := exec.CommandContext(t.Context(), m.format, image).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", m.format, err, out)
			}
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
				"sh", "-euc", fillMedia, "sh", image, m.mount, dir,
				program(t, host.Find()), "mirror", "--to", filepath.Join(dir, "releases"),
				"--template", "file://"+w.releases+"/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz", "1.0.0", "1.1.0")
			out, err := cmd.CombinedOutput()
			said := string(out)
			if err != nil || strings.Count(said, "  saved\n") != 2 || strings.Count(said, "  was there\n") != 2 || strings.Count(said, ": OK\n") != 2 {
				t.Fatalf("%v\n%s", err, said)
			}
			if _, names, _ := strings.Cut(said[strings.LastIndex(said, ": OK\n"):], "\n"); strings.Count(names, "\n") != 4 {
				t.Errorf("the medium holds\n%s", names)
			}
		})
	}
}
