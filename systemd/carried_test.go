package systemd

import (
	"slices"
	"strings"
	"testing"
)

const releaseUnit = `[Unit]
Description=Teleport Service
After=network.target

[Service]
Type=simple
Restart=on-failure
RestartSec=300ms
EnvironmentFile=-/etc/default/teleport
ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid
PIDFile=/run/teleport.pid
LimitNOFILE=524288

[Install]
WantedBy=multi-user.target
`

// Each directive alone, in a unit that is the release's but for it: it is kept, named as not
// kept, or said to be the vendor's own.
func TestEachDirectiveOfAHandMadeUnitIsKeptOrNamed(t *testing.T) {
	kept := []string{
		"Environment=AWS_ACCESS_KEY_ID=AKIA", `Environment="A=b c" D=e`, "EnvironmentFile=-/etc/sysconfig/teleport", "PassEnvironment=X", "UnsetEnvironment=Y",
		"User=teleport", "Group=adm", "SupplementaryGroups=audio", "UMask=0077", "WorkingDirectory=/srv",
		"ExecStartPre=/usr/local/bin/get-token", "ExecStartPost=/bin/true", "ExecStopPost=/bin/true", "ExecCondition=/bin/true",
		"KillMode=process", "KillSignal=SIGINT", "SendSIGKILL=no", "TimeoutStartSec=10", "TimeoutStopSec=1h", "Restart=always", "RestartSec=1",
		"LimitNOFILE=65536", "LimitNPROC=7", "LimitCORE=0", "MemoryMax=2G", "MemoryHigh=1G", "CPUQuota=50%", "IOWeight=10", "TasksMax=99",
		"Slice=agents.slice", "Delegate=yes", "Nice=5", "OOMScoreAdjust=-900", "IPAddressDeny=any", "DevicePolicy=closed", "DeviceAllow=/dev/null r",
		"ProtectSystem=full", "ProtectHome=yes", "PrivateTmp=true", "PrivateDevices=yes", "RestrictSUIDSGID=yes", "RestrictAddressFamilies=AF_INET",
		"ReadWritePaths=/srv", "InaccessiblePaths=/secret", "BindPaths=/a:/b", "NoNewPrivileges=yes", "CapabilityBoundingSet=CAP_NET_ADMIN",
		"AmbientCapabilities=CAP_NET_ADMIN", "SystemCallFilter=@system-service", "LockPersonality=yes", "SELinuxContext=x", "AppArmorProfile=y",
		"RuntimeDirectory=teleport", "StateDirectory=teleport", "LoadCredential=a:/b", "StandardOutput=null", "SyslogIdentifier=t", "LogLevelMax=info",
	}
	named := []string{"Type=forking", "PIDFile=/var/run/other.pid", "ExecReload=/bin/kill -HUP $MAINPID", "ExecStop=/bin/x", "NotifyAccess=all", "BusName=a.b", "Directive=ToCome"}
	vendors := []string{"LimitNOFILE=8192", "Restart=on-failure", "EnvironmentFile=-/etc/default/teleport", "#Environment=A=b", "; Environment=A=b"}
	for _, line := range slices.Concat(kept, named, vendors) {
		c := Carry([]byte(strings.Replace(releaseUnit, "\nType=", "\n"+line+"\nType=", 1)), []byte(releaseUnit))
		inDropIn := strings.Contains(string(c.DropIn), line+"\n")
		if want := slices.Contains(kept, line); inDropIn != want || !want && c.DropIn != nil {
			t.Errorf("%s: the drop-in is %q", line, c.DropIn)
		}
		if inRest := slices.Contains(c.Rest, line); inRest != slices.Contains(named, line) {
			t.Errorf("%s: named as not kept are %q", line, c.Rest)
		}
	}
	for _, line := range []string{"After=chronyd.service", "ConditionPathExists=/etc/teleport.yaml", "AssertHost=a", "BindsTo=b.service", "PartOf=c.service"} {
		c := Carry([]byte(strings.Replace(releaseUnit, "\nAfter=", "\n"+line+"\nAfter=", 1)), []byte(releaseUnit))
		if string(c.DropIn) != "[Unit]\n"+line+"\n" {
			t.Errorf("%s: the drop-in is %q", line, c.DropIn)
		}
	}
}

func TestWhatIsExecutedIsExecutedOnce(t *testing.T) {
	after := strings.Replace(releaseUnit, "\nType=", "\nExecStartPre=/release\nType=", 1)
	before := strings.Replace(releaseUnit, "\nType=", "\nExecStartPre=/first \\\n  --long\nExecStartPre=/second\nExecStartPost=/gone\nExecStartPost=\nType=", 1)
	want := "[Service]\nExecStartPre=\nExecStartPre=/release\nExecStartPre=/first    --long\nExecStartPre=/second\n"
	if c := Carry([]byte(before), []byte(after)); string(c.DropIn) != want {
		t.Errorf("the drop-in is\n%s\nwant\n%s", c.DropIn, want)
	}
	if c := Carry([]byte(releaseUnit), []byte(releaseUnit)); c.DropIn != nil || c.Rest != nil {
		t.Errorf("of the same unit: %+v", c)
	}
}
