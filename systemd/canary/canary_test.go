package canary

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/systemd"
)

var trial = Trial{Program: "/opt/teleport-update/versions/1.1.0/bin/teleport", Output: "/run/out"}

const (
	head = "[Unit]\nDescription=trial of a start of teleport.service\nDefaultDependencies=no\nConflicts=shutdown.target\n" +
		"Before=shutdown.target\n\n[Service]\n"
	own     = "Type=oneshot\nRemainAfterExit=yes\nRestart=no\nTimeoutStartSec=30\nTimeoutStopSec=30\nStandardOutput=file:/run/out\n"
	command = `"/opt/teleport-update/versions/1.1.0/bin/teleport" version` + "\n"
)

// released is like the unit that a release of Teleport brings.
const released = `[Unit]
Description=Teleport Service
After=network.target

[Service]
Type=simple
Restart=always
RestartSec=5
EnvironmentFile=-/etc/default/teleport
ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid
ExecReload=/bin/sh -c "exec pkill -HUP -L -F /run/teleport.pid"
PIDFile=/run/teleport.pid
LimitNOFILE=524288

[Install]
WantedBy=multi-user.target
`

func unitOf(name string, texts ...string) string {
	s := Service{Name: name, Unit: systemd.File{Path: "/usr/local/lib/systemd/system/" + name, Content: []byte(texts[0])}}
	for _, text := range texts[1:] {
		s.After = append(s.After, systemd.File{Path: "/etc/x.conf", Content: []byte(text)})
	}
	return string(Unit(s, trial))
}

func TestTheCanaryOfAReleasesUnit(t *testing.T) {
	want := head + "EnvironmentFile=-/etc/default/teleport\nLimitNOFILE=524288\n" + own + "StandardError=file:/run/out\nExecStart=" + command
	if got := unitOf("teleport.service", released); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Each row is a service whose section [Service] is the first text, with the other texts as drop-ins.
func TestWhatACanaryHas(t *testing.T) {
	const out, start = "StandardError=file:/run/out\n", "ExecStart="
	for name, c := range map[string]struct {
		of   string
		in   []string
		want string // after the settings that each canary has
		tail string
	}{
		"identity, view, limits, protections stay": {in: []string{"User=teleport\nGroup=a b\nReadOnlyPaths=/etc -/srv\nMemoryMax=1G\nSystemCallFilter=~@clock\n"},
			want: "User=teleport\nGroup=a b\nReadOnlyPaths=/etc -/srv\nMemoryMax=1G\nSystemCallFilter=~@clock\n"},
		"drop-ins come after the unit, in order": {in: []string{"User=a\n", "[Service]\nUser=b\n", "[Service]\nUser=\nUser=c\n"}, want: "User=a\nUser=b\nUser=\nUser=c\n"},
		"what acts is left out": {in: []string{"PIDFile=/run/teleport.pid\nRestart=always\nSuccessAction=reboot\nExecStartPre=/bin/rm -rf /x\nExecStopPost=/bin/rm /x\n" +
			"ExecReload=/bin/false\nOnFailure=poweroff.target\nRuntimeDirectory=teleport\nKillMode=none\nSendSIGKILL=no\nWatchdogSec=1\nNotifyAccess=all\n" +
			"Type=notify\nSockets=a.socket\nBusName=a.b\nRemoveIPC=yes\nLogNamespace=x\nLimitNPROC=3\nTTYPath=/dev/tty1\nTTYVHangup=yes\nStandardInput=tty-force\n"}},
		"other sections are left out":     {in: []string{"User=a\n[Unit]\nUser=b\nFailureAction=reboot\n[Install]\nAlias=x.service\n[X-Own]\nUser=c\n"}, want: "User=a\n"},
		"prefixes that decide the rights": {in: []string{"ExecStart=-@+:/usr/local/bin/teleport tele start\n"}, tail: out + start + "+:" + command},
		"a prefix of two characters":      {in: []string{"ExecStart=!!/usr/local/bin/teleport start\n"}, tail: out + start + "!!" + command},
		"a command that was taken back":   {in: []string{"ExecStart=+/bin/x\n", "[Service]\nExecStart=\nExecStart=/bin/y\n"}},
		"the first command counts":        {in: []string{"ExecStart=!/bin/x\nExecStart=+/bin/y\n"}, tail: out + start + "!" + command},
		"specifiers of the name": {in: []string{"EnvironmentFile=/etc/default/%N.env\nWorkingDirectory=/var/lib/%p\nEnvironment=A=%n-%y-%Y-%%n-%H-100%\n"},
			want: "EnvironmentFile=/etc/default/teleport.env\nWorkingDirectory=/var/lib/teleport\n" +
				"Environment=A=teleport.service-/usr/local/lib/systemd/system/teleport.service-/usr/local/lib/systemd/system-%%n-%H-100%\n"},
		"specifiers of an instance": {of: `tele-port@a-b\x2dc.service`, in: []string{"Environment=A=%p-%P-%i-%I-%j-%f-%N\n"},
			want: `Environment=A=tele-port-tele/port-a-b\x2dc-a/b-c-port-/a/b-c-tele-port@a-b\x2dc` + "\n"},
		"a line that goes on, with a comment in it": {in: []string{"Environment=A=1 \\\n# comment\n  B=2\n"}, want: "Environment=A=1    B=2\n"},
		"a file for output is opened for errors":    {in: []string{"StandardOutput=file:/var/log/t\n"}, tail: "StandardError=append:/var/log/t\n" + start + command},
		"of two files, the one for errors":          {in: []string{"StandardOutput=append:/a\nStandardError=truncate:/b\n"}, tail: "StandardError=append:/b\n" + start + command},
		"a file that was taken back":                {in: []string{"StandardOutput=file:/a\n", "[Service]\nStandardOutput=journal\n"}},
		"a file for input":                          {in: []string{"StandardInput=file:/a\n"}, want: "StandardInput=file:/a\n"},
		"a file for input that was taken back":      {in: []string{"StandardInput=file:/a\n", "[Service]\nStandardInput=null\n"}},
		"folders that systemd makes may be missing": {in: []string{"RuntimeDirectory=tele/x port\nStateDirectory=s:link\nWorkingDirectory=/var/run/tele/x\nEnvironmentFile=/run/port/env\n" +
			"ReadWritePaths=/run/port +/var/lib/s/sub /srv /var/lib/stele\nBindPaths=/run/port:/mnt\n"},
			want: "WorkingDirectory=-/var/run/tele/x\nEnvironmentFile=-/run/port/env\nReadWritePaths=-/run/port -+/var/lib/s/sub /srv /var/lib/stele\nBindPaths=-/run/port:/mnt\n"},
	} {
		of := "teleport.service"
		if c.of != "" {
			of = c.of
		}
		if c.tail == "" {
			c.tail = out + start + command
		}
		c.in[0] = "[Service]\n" + c.in[0]
		want := strings.Replace(head, "teleport.service", of, 1) + c.want + own + c.tail
		if got := unitOf(of, c.in...); got != want {
			t.Errorf("%s: got:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

func TestAProgramIsQuoted(t *testing.T) {
	for in, want := range map[string]string{
		`/a b/%n/$x/"\`: `ExecStart="/a b/%%n/$$x/\"\\" version`,
		"/a/$x":         `ExecStart="/a/$$x" version`,
	} {
		if got := string(Unit(Service{Name: "a.service"}, Trial{in, "/run/out"})); !strings.HasSuffix(got, want+"\n") {
			t.Errorf("%s: got %s", in, got)
		}
	}
	s := Service{Name: "a.service", Unit: systemd.File{Content: []byte("[Service]\nExecStart=:/x\n")}}
	if got := string(Unit(s, Trial{"/a/$x", "/run/out"})); !strings.HasSuffix(got, `ExecStart=:"/a/$x" version`+"\n") {
		t.Errorf("got %s", got)
	}
}

// A canary of any unit has settings of the list alone, beside its own: nothing else can act.
func TestACanaryHasSettingsOfTheListAlone(t *testing.T) {
	mayHave := strings.Fields("Type RemainAfterExit Restart TimeoutStartSec TimeoutStopSec StandardOutput StandardError ExecStart " +
		"Description DefaultDependencies Conflicts Before")
	units := 0
	err := filepath.WalkDir("../testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		units++
		text := unitOf("teleport.service", string(content), "[Service]\nPIDFile=/run/x\nFailureAction=reboot\n")
		sections := strings.Count(text, "\n[")
		for _, line := range systemd.UnitLines(text) {
			name, _, is := strings.Cut(line, "=")
			if is && !kept[name] && !slices.Contains(mayHave, name) {
				t.Errorf("the canary of %s has %s", path, line)
			}
		}
		if sections != 1 || strings.Count(text, "ExecStart=") != 1 {
			t.Errorf("the canary of %s is:\n%s", path, text)
		}
		return nil
	})
	if err != nil || units < 10 {
		t.Errorf("%d units, %v", units, err)
	}
}
