//go:build hosts

package takeover

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
	"teleport-update/internal/layout"
)

// handMade is a unit as roles and images write it, with more than how the agent is started.
const handMade = `[Unit]
Description=Teleport SSH Service
After=network-online.target remote-fs.target
ConditionPathExists=/etc/teleport.yaml

[Service]
Type=simple
Group=adm
Restart=always
RestartSec=1
Slice=agents.slice
KillMode=mixed
Environment=AWS_ACCESS_KEY_ID=AKIAEXAMPLE
Environment="AWS_SECRET_ACCESS_KEY=with a space"
EnvironmentFile=-/etc/sysconfig/teleport
ExecStartPre=/usr/local/bin/get-token --once
ExecStart=/usr/local/bin/teleport start --config=/etc/teleport.yaml --pid-file=/run/teleport.pid
ExecReload=/bin/kill -HUP $MAINPID
PIDFile=/run/teleport.pid
LimitNOFILE=4096
PrivateTmp=true
ProtectSystem=full
MemoryMax=2G

[Install]
WantedBy=multi-user.target
`

const carriedFile = "/usr/local/lib/systemd/system/teleport.service.d/05-teleport-update-carried.conf"

// handMadeSays are the properties that are an administrator's.
const handMadeSays = "Group,Restart,RestartUSec,Slice,KillMode,LimitNOFILE,PrivateTmp,ProtectSystem,MemoryMax"

// A unit that somebody wrote keeps what it says about the agent's surroundings, wherever it
// is; after uninstall it is what it was. If systemd prefers it to the updater's folder, enable names the flag that keeps it.
func TestAHandMadeUnitKeepsWhatItSays(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/lib/systemd/system", filepath.Dir(unitFile), layout.ConfigDir} {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(dir))), func(t *testing.T) {
			s := newScene(t)
			unitFile, serves := unitFile, s.Serves
			s.Sound("1.0.0", "1.1.0")
			s.RunPreExisting("0.9.0", scenes.PreExistingAgents["by hand"])
			s.Must("systemctl", "disable", "--now", "teleport")
			s.Must("rm", "-f", s.Show("teleport", "FragmentPath"))
			s.Write("/usr/local/bin/get-token", "#!/bin/sh\necho \"$*\" >>/root/token-taken\n")
			s.Must("chmod", "755", "/usr/local/bin/get-token")
			s.Must("mkdir", "-p", dir, "/etc/sysconfig")
			s.Write("/etc/sysconfig/teleport", "FROM_A_FILE=yes\n")
			s.Write(dir+"/teleport.service", handMade)
			s.Must("systemctl", "daemon-reload")
			s.Must("systemctl", "enable", "--now", "teleport")
			says := func() string { return s.Must("systemctl", "show", "-p", handMadeSays, "teleport") }
			before := says()

			s.Wants("1.0.0")
			enable := []string{s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}
			if dir == layout.ConfigDir {
				unitFile, serves = dir+"/teleport.service", func(v string) { s.RunsFrom(s.Executable(v)) }
				s.Fails(1, "leave it there; `teleport-update --unit-dir "+dir+" enable`", enable...)
				enable = slices.Insert(enable, 1, "--unit-dir", dir)
			}
			s.Must(enable...)
			s.Must("rm", "-f", "/root/token-taken")
			s.Must("systemctl", "restart", "teleport")
			serves("1.0.0")
			if got := s.Show("teleport", "FragmentPath"); got != unitFile {
				t.Errorf("systemd uses the unit %s", got)
			}
			if now := says(); now != before {
				t.Errorf("the agent's unit says\n%s\nbefore it said\n%s", now, before)
			}
			environment := s.Must("sh", "-c", "tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value teleport)/environ")
			for _, line := range []string{"AWS_ACCESS_KEY_ID=AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY=with a space", "FROM_A_FILE=yes"} {
				if !strings.Contains(environment, line) {
					t.Errorf("the agent does not have %s:\n%s", line, environment)
				}
			}
			if taken := s.Read("/root/token-taken"); taken != "--once\n" {
				t.Errorf("what runs before a start ran %q; want once", taken)
			}
			s.Must(updater, "verify")
			s.Wants("1.1.0")
			s.Must(updater, "update", "--now")
			serves("1.1.0")
			if now := says(); now != before {
				t.Errorf("after an update the unit says\n%s\nbefore it said\n%s", now, before)
			}

			s.Must(updater, "uninstall")
			s.Must("systemctl", "restart", "teleport")
			if now := says(); now != before {
				t.Errorf("after uninstall the unit says\n%s\nbefore it said\n%s", now, before)
			}
		})
	}
}

// A package's unit that somebody edited in place keeps what was written into it, and goes with the package.
func TestAnEditedUnitOfAPackageKeepsWhatItSays(t *testing.T) {
	t.Parallel()
	for name, tc := range packagedAgents {
		t.Run(name, func(t *testing.T) {
			s := sceneOn(t, tc.host)
			tc.install(s)
			s.Sound("1.0.0")
			unit := s.Show("teleport", "FragmentPath")
			program := strings.TrimSpace(s.Must("sh", "-c", "readlink -f /proc/$(systemctl show -p MainPID --value teleport)/exe"))
			s.Must("sed", "-i", `s|^\[Service\]|[Service]\nEnvironment=HTTPS_PROXY=http://proxy.test:3128\nUMask=0027|`, unit)
			s.Must("systemctl", "daemon-reload")
			s.Must("systemctl", "restart", "teleport")
			s.RunsFrom(program)
			s.Wants("1.0.0")
			s.Enable("--health-window", "1s")
			s.Serves("1.0.0")
			if s.Exists(unit) {
				t.Errorf("the package's unit %s is there still", unit)
			}
			if want := "[Service]\nEnvironment=HTTPS_PROXY=http://proxy.test:3128\nUMask=0027\n"; !strings.Contains(s.Read(carriedFile), want) {
				t.Errorf("kept is\n%s\nwant\n%s", s.Read(carriedFile), want)
			}
			s.Must("systemctl", "restart", "teleport")
			s.Serves("1.0.0")
			if got := s.Must("sh", "-c", "tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value teleport)/environ"); !strings.Contains(got, "HTTPS_PROXY=http://proxy.test:3128") {
				t.Errorf("the agent has no HTTP proxy:\n%s", got)
			}
		})
	}
}
