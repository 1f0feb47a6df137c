package scenes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/integration/release"
)

// The stand-in for Teleport's package since 17.3: its content is below SystemDir, and
// its own teleport-update makes the links, which no database of packages knows.
const SystemDir = "/opt/teleport/system"

// ForeignWords is what the stand-in for Teleport's own teleport-update says.
const ForeignWords = "this is Teleport's own updater"

// foreignProgram links the package's programs where their names are free, and takes
// its own links away again.
const foreignProgram = `#!/bin/sh
echo "` + ForeignWords + `" >&2
case $1 in
link-package)
	for file in ` + SystemDir + `/bin/*; do
		link=` + LinkDir + `/${file##*/}
		[ -e "$link" ] || ln -sf "$file" "$link"
	done
	[ -e ` + UnitFile + ` ] || cp ` + SystemDir + `/lib/systemd/system/teleport.service ` + PackagesUnit + `
	;;
unlink-package)
	for file in ` + SystemDir + `/bin/*; do
		link=` + LinkDir + `/${file##*/}
		[ "$(readlink "$link")" != "$file" ] || rm -f "$link"
	done
	rm -f ` + PackagesUnit + `
	;;
*) exit 3 ;;
esac
`

// SystemDeb builds that package for apt.
func (s *Scene) SystemDeb(v string) string {
	s.T.Helper()
	unpacked, dir := s.unpacked(v), s.T.TempDir()
	put := func(name, text string, mode os.FileMode) {
		name = filepath.Join(dir, name)
		s.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		s.Check(os.WriteFile(name, []byte(text), mode))
	}
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		data, err := os.ReadFile(filepath.Join(unpacked, name))
		s.Check(err)
		put(SystemDir+"/bin/"+name, string(data), 0o755)
	}
	put(SystemDir+"/bin/fdpass-teleport", "#!/bin/sh\n", 0o755)
	put(SystemDir+"/bin/teleport-update", foreignProgram, 0o755)
	put(SystemDir+"/lib/systemd/system/teleport.service", release.Unit{Restart: "always", RestartDelay: 300 * time.Millisecond}.Text(), 0o644)
	s.Check(os.MkdirAll(filepath.Join(dir, "var/lib/teleport"), 0o755))
	s.Check(os.Chmod(filepath.Join(dir, "var/lib/teleport"), 0o700))
	put("DEBIAN/control", "Package: teleport\nVersion: "+v+"\nArchitecture: all\nMaintainer: test <test@localhost>\nDescription: stand-in\n", 0o644)
	put("DEBIAN/postinst", "#!/bin/sh\nset -e\n"+SystemDir+"/bin/teleport-update link-package\nsystemctl daemon-reload\n", 0o755)
	put("DEBIAN/prerm", "#!/bin/sh\nset -e\n[ \"$1\" = remove ] || exit 0\nsystemctl stop teleport.service\nsystemctl disable teleport.service\n"+
		SystemDir+"/bin/teleport-update unlink-package\n", 0o755)
	deb := filepath.Join(s.T.TempDir(), "teleport_"+v+"_all.deb")
	if out, err := exec.CommandContext(s.T.Context(), "dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", dir, deb).CombinedOutput(); err != nil {
		s.T.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	return deb
}

// Dangling lists the links in the link folder that lead to nothing.
func (s *Scene) Dangling() []string {
	s.T.Helper()
	return strings.Fields(s.Must("find", LinkDir, "-xtype", "l"))
}
