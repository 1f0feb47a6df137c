package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
		"ReadWriteDirectories=/srv", "ReadOnlyDirectories=/etc", "InaccessibleDirectories=/secret", "ProcSubset=pid", "NetworkNamespacePath=/run/netns/a",
		"IPCNamespacePath=/proc/1/ns/ipc", "RuntimeMaxSec=1d", "RootImage=/srv/root.img", "RootImageOptions=ro", "MountAPIVFS=yes", "SecureBits=noroot", "Personality=x86", "NUMAPolicy=bind", "NUMAMask=0",
		"SocketBindAllow=tcp:3022", "SocketBindDeny=any",
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
}

// The rest of a unit: what it depends on and how often it is started is kept, how it is installed and what nobody
// here knows is named.
func TestEachDirectiveOfTheOtherSectionsIsKeptOrNamed(t *testing.T) {
	units := map[string]string{
		"After": "kept", "Before": "kept", "Wants": "kept", "Requires": "kept", "Requisite": "kept", "BindsTo": "kept", "BindTo": "kept", "PartOf": "kept",
		"Upholds": "kept", "Conflicts": "kept", "ConditionPathExists": "kept", "AssertHost": "kept", "RequiresMountsFor": "kept", "WantsMountsFor": "kept",
		"OnFailure": "kept", "OnFailureJobMode": "kept", "OnSuccess": "kept", "PropagatesReloadTo": "kept", "PropagateReloadTo": "kept", "PropagatesStopTo": "kept",
		"ReloadPropagatedFrom": "kept", "StopPropagatedFrom": "kept", "JoinsNamespaceOf": "kept", "DefaultDependencies": "kept",
		"StartLimitIntervalSec": "kept", "StartLimitInterval": "kept", "StartLimitBurst": "kept", "StartLimitAction": "kept",
		"JobTimeoutSec": "kept", "JobTimeoutAction": "kept", "JobRunningTimeoutSec": "kept", "FailureAction": "kept", "FailureActionExitStatus": "kept",
		"SuccessAction": "kept", "RebootArgument": "kept", "IgnoreOnIsolate": "kept", "StopWhenUnneeded": "kept", "CollectMode": "kept",
		"RefuseManualStop": "named", "RefuseManualStart": "named", "AllowIsolate": "named", "SurviveFinalKillSignal": "named", "DirectiveToCome": "named",
		"Description": "", "Documentation": "", "SourcePath": "", "X-Fleet": "",
	}
	services := map[string]string{"StartLimitInterval": "kept", "StartLimitBurst": "kept", "StartLimitAction": "kept", "FailureAction": "kept", "X-Fleet": ""}
	installs := map[string]string{"WantedBy": "named", "RequiredBy": "named", "UpheldBy": "named", "Alias": "named", "Also": "named", "DirectiveToCome": "named"}
	others := map[string]string{"Extra": ""}
	for section, directives := range map[string]map[string]string{"[Unit]": units, "[Service]": services, "[Install]": installs, "[X-Fleet]": others} {
		for name, want := range directives {
			line := name + "=other.service"
			c := Carry([]byte(releaseUnit+section+"\n"+line+"\n"), []byte(releaseUnit))
			if kept := string(c.DropIn) == section+"\n"+line+"\n"; kept != (want == "kept") || !kept && c.DropIn != nil {
				t.Errorf("%s %s: the drop-in is %q", section, line, c.DropIn)
			}
			if named := slices.Equal(c.Rest, []string{line}); named != (want == "named") || !named && c.Rest != nil {
				t.Errorf("%s %s: named as not kept are %q", section, line, c.Rest)
			}
		}
	}
	// An agent that may crash as often as it likes is not left down after the fifth time.
	before := strings.Replace(releaseUnit, "After=network.target", "After=network.target\nStartLimitIntervalSec=0", 1)
	before = strings.Replace(before, "RestartSec=300ms", "RestartSec=1", 1)
	if c := Carry([]byte(before), []byte(releaseUnit)); string(c.DropIn) != "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=1\n" || c.Rest != nil {
		t.Errorf("the drop-in is %q; not kept: %q", c.DropIn, c.Rest)
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

// systemd.syntax(7): a comment ends with its line, and one inside a line that goes on is left out of it.
func TestCommentsAreReadAsSystemdReadsThem(t *testing.T) {
	for written, want := range map[string]string{
		"# ExecStartPre=/old \\\nEnvironment=HTTPS_PROXY=http://p:3128":              "Environment=HTTPS_PROXY=http://p:3128\n",
		"; gone \\\n  # too \\\nUser=teleport":                                       "User=teleport\n",
		"ExecStartPre=/bin/install -d \\\n# closed to others\n  -m 0700 /srv/ca":     "ExecStartPre=\nExecStartPre=/bin/install -d    -m 0700 /srv/ca\n",
		"Environment=A=1 \\\n  ; the second one \\\n B=2\nUser=teleport":             "Environment=A=1   B=2\nUser=teleport\n",
		"Environment=A=1 \\\n# [Install]\n B=2\nEnvironment=\\\n# none\n\nUser=root": "User=root\n",
	} {
		before := strings.Replace(releaseUnit, "\nType=", "\n"+written+"\nType=", 1)
		if c := Carry([]byte(before), []byte(releaseUnit)); string(c.DropIn) != "[Service]\n"+want || c.Rest != nil {
			t.Errorf("%s\nthe drop-in is\n%s\nwant\n%s\nnot kept: %q", written, c.DropIn, want, c.Rest)
		}
	}
}

// What an administrator wrote into the unit before is theirs once the updater goes and the agent stays: no Erase takes it away, it is
// there all the time, wherever that is cut off, and what others or an earlier uninstall left stays.
func TestCarriedSettingsAreKept(t *testing.T) {
	for name, there := range map[string][]string{
		"nothing":                        {},
		"a run before was cut off":       {"new"},
		"an earlier uninstall left them": {"old"},
		"both":                           {"old", "new"},
		"two of earlier uninstalls":      {"old", "older"},
		"a file of somebody else":        {"not a drop-in"},
	} {
		u := Units{UnitDir: t.TempDir(), Agent: "teleport.service"}
		if err := u.WriteCarried(Carried{DropIn: []byte("[Service]\nUser=new\n")}, "/lib/teleport.service"); err != nil {
			t.Fatal(err)
		}
		written := func() (all []string) {
			files, _ := filepath.Glob(filepath.Join(filepath.Dir(u.CarriedFile()), "*.conf")) // sorted, as systemd reads them
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, string(data))
			}
			return all
		}
		settings := strings.TrimPrefix(written()[0], mark+"\n")
		for n, content := range there {
			if content == "new" {
				content = settings
			}
			file := filepath.Join(filepath.Dir(u.CarriedFile()), "05-teleport-carried"+strings.Trim(strconv.Itoa(n+1), "1")+".conf")
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := u.KeepCarried()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(kept); err != nil || string(data) != settings {
			t.Errorf("%s: %s has %q, %v", name, kept, data, err)
		}
		for range 2 {
			if again, err := u.KeepCarried(); again != "" || err != nil {
				t.Errorf("%s: once more it keeps %q, %v", name, again, err)
			}
			all := written()
			want := slices.Compact(append(slices.DeleteFunc(slices.Clone(there), func(s string) bool { return s == "new" }), settings))
			if !slices.Equal(all, want) {
				t.Errorf("%s: the drop-ins are %q; want %q", name, all, want)
			}
			if err := u.EraseCarried(); err != nil {
				t.Fatal(err)
			}
		}
	}
	u := Units{UnitDir: t.TempDir()}
	if kept, err := u.KeepCarried(); kept != "" || err != nil {
		t.Errorf("nothing was carried, and %q is kept, %v", kept, err)
	}
}
