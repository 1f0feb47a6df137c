package scenes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// The stand-in for Teleport's own updater: versions and configuration in a folder of its
// own, links, units and a drop-in in places of the administrator's.
const (
	OthersDir   = "/opt/teleport/default"
	OthersTimer = "/etc/systemd/system/teleport-update.timer"
	// OthersRan and OthersActed tell how far its last run came: it had the lock; it
	// changed what the host runs.
	OthersRan   = "/srv/others-ran"
	OthersActed = "/srv/others-acted"
)

// OthersFiles is what keeps it going.
var OthersFiles = []string{
	OthersDir + "/update.yaml", OthersTimer, "/etc/systemd/system/teleport-update.service", "/etc/systemd/system/teleport.service.d/teleport-update.conf",
	"/etc/needrestart/conf.d/teleport-update.conf", "/etc/systemd/system/timers.target.wants/teleport-update.timer", LinkDir + "/teleport-update",
}

// ownUpdater waits for its lock without limit, reads its configuration then, and links the
// version that this names.
const ownUpdater = `#!/bin/sh
echo "` + ForeignWords + `" >&2
[ "$1" = update ] || exit 3
exec 9>>` + OthersDir + `/update.lock
flock 9
touch ` + OthersRan + `
grep -q '^  enabled: true' ` + OthersDir + `/update.yaml 2>/dev/null || exit 0
touch ` + OthersActed + `
version=$(sed -n 's/^    version: //p' ` + OthersDir + `/update.yaml)
for program in ` + OthersDir + `/versions/$version/bin/*; do
	ln -sfn "$program" ` + LinkDir + `/${program##*/}
done
systemctl restart teleport.service
`

// InstallOwnUpdater makes the host one that Teleport's own updater keeps on a version; more
// are lines of the spec in its configuration.
func (s *Scene) InstallOwnUpdater(v string, more ...string) {
	s.T.Helper()
	unpacked, bin := s.unpacked(v), OthersDir+"/versions/"+v+"/bin"
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		s.Put(filepath.Join(unpacked, name), bin+"/"+name)
		s.Must("ln", "-s", bin+"/"+name, LinkDir+"/"+name)
	}
	s.Write(PackagesUnit, release.Unit{Restart: "always", RestartDelay: 300 * time.Millisecond}.Text())
	s.AddOwnUpdater(v, more...)
	s.Must("systemctl", "enable", "--now", "teleport")
	s.RunsFrom(bin + "/teleport")
	host.Wait(s.T, Patience, func() error {
		if s.RowsOf(v) == 0 {
			return fmt.Errorf("the agent has not written anything yet")
		}
		return nil
	})
}

// AddOwnUpdater brings Teleport's own updater to a host that has an agent.
func (s *Scene) AddOwnUpdater(v string, more ...string) {
	s.T.Helper()
	program := OthersDir + "/versions/" + v + "/bin/teleport-update"
	s.Check(s.WriteFile(program, []byte(ownUpdater), 0o755))
	s.Must("ln", "-s", program, LinkDir+"/teleport-update")
	s.Write(OthersDir+"/update.yaml", "version: v1\nkind: update_config\nspec:\n  enabled: true\n  path: "+LinkDir+"\n"+strings.Join(append(more, ""), "\n")+
		"status:\n  active:\n    version: "+v+"\n")
	s.Write("/etc/systemd/system/teleport-update.service", "[Unit]\nDescription=Teleport auto-update service\n[Service]\nType=oneshot\nExecStart="+LinkDir+"/teleport-update update\n")
	s.Write(OthersTimer, "[Unit]\nDescription=Teleport auto-update timer unit\n[Timer]\nOnActiveSec=1m\nOnUnitActiveSec=5m\n[Install]\nWantedBy=timers.target\n")
	s.Write("/etc/systemd/system/teleport.service.d/teleport-update.conf", "[Service]\nEnvironment=TELEPORT_UPDATE_CONFIG_FILE="+OthersDir+"/update.yaml\nEnvironment=TELEPORT_UPDATE_INSTALL_DIR=/opt/teleport\n")
	s.Write("/etc/needrestart/conf.d/teleport-update.conf", "$nrconf{override_rc}{qr(^teleport(_.+)?\\.service)} = 0;\n")
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "enable", "--now", "teleport-update.timer")
}

// UpgradeDeb builds the stand-in for the package of teleport-upgrade (RFD 0109), which
// depends on the agent's.
func (s *Scene) UpgradeDeb() string {
	s.T.Helper()
	dir := s.T.TempDir()
	put := func(name, text string, mode os.FileMode) {
		name = filepath.Join(dir, name)
		s.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		s.Check(os.WriteFile(name, []byte(text), mode))
	}
	put("usr/sbin/teleport-upgrade", "#!/bin/sh\ntouch "+OthersActed+"\n", 0o755)
	put("lib/systemd/system/teleport-upgrade.service", "[Service]\nType=oneshot\nExecStart=/usr/sbin/teleport-upgrade run\n", 0o644)
	put("lib/systemd/system/teleport-upgrade.timer", "[Timer]\nOnActiveSec=30m\nOnUnitActiveSec=30m\n[Install]\nWantedBy=timers.target\n", 0o644)
	put("lib/systemd/system/teleport.service.d/teleport-ent-updater.conf", "[Service]\nEnvironment=TELEPORT_EXT_UPGRADER=unit\n", 0o644)
	put("DEBIAN/control", "Package: teleport-ent-updater\nVersion: 1.0\nArchitecture: all\nDepends: teleport\nMaintainer: test <test@localhost>\nDescription: stand-in\n", 0o644)
	put("DEBIAN/postinst", "#!/bin/sh\nset -e\nsystemctl daemon-reload\nsystemctl enable --now teleport-upgrade.timer\n", 0o755)
	put("DEBIAN/prerm", "#!/bin/sh\nset -e\nsystemctl stop teleport-upgrade.timer\nsystemctl disable teleport-upgrade.timer\n", 0o755)
	deb := filepath.Join(s.T.TempDir(), "teleport-ent-updater_1.0_all.deb")
	if out, err := exec.CommandContext(s.T.Context(), "dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", dir, deb).CombinedOutput(); err != nil {
		s.T.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	return deb
}
