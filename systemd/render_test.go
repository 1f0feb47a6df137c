package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheUsualFoldersAreNotOnTheCommandLines(t *testing.T) {
	files, err := Units{Binary: "/usr/local/sbin/teleport-update"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{}
	for _, f := range files {
		lines[f.Name] = strings.Split(string(f.Content), "\n")
	}
	for unit, want := range map[string][]string{
		"teleport-update.service": {
			"ExecStart=/usr/local/sbin/teleport-update update",
			"Environment=TELEPORT_UPDATE_SCHEDULED=1",
			"After=teleport-update-recover.service teleport.service",
			"EnvironmentFile=-/etc/default/teleport-update",
			"ConditionPathExists=|/var/lib/teleport/versions/updates.yaml",
			"ConditionPathExists=|/var/lib/teleport/versions/journal.json",
		},
		"teleport-update.timer": {"OnCalendar=*:0/10", "Persistent=true", "WantedBy=timers.target"},
		"teleport-update-recover.service": {
			"ExecStart=/usr/local/sbin/teleport-update recover --boot",
			"RequiresMountsFor=/var/lib/teleport /usr/local/bin /usr/local/lib/systemd/system /opt/teleport-update",
			"ConditionPathExists=/var/lib/teleport/versions/journal.json",
			"Before=teleport.service",
			"WantedBy=multi-user.target",
		},
	} {
		for _, line := range want {
			if !slices.Contains(lines[unit], line) {
				t.Errorf("%s lacks %q:\n%s", unit, line, strings.Join(lines[unit], "\n"))
			}
		}
	}
}

func TestOtherFoldersAreNamedAndQuoted(t *testing.T) {
	files, err := Units{
		Binary: "/opt/100%/up date", DataDir: "/data $HOME", LinkDir: `/a "b" \c`, UnitDir: "/units",
	}.Files()
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, f := range files {
		content[f.Name] = string(f.Content)
	}
	command := `"/opt/100%%/up date" --data-dir "/data $$HOME" --link-dir "/a \"b\" \\c" --unit-dir /units`
	for unit, line := range map[string]string{
		"teleport-update.service":         "ExecStart=" + command + " update\n",
		"teleport-update-recover.service": "ExecStart=" + command + " recover --boot\n",
	} {
		if !strings.Contains(content[unit], line) {
			t.Errorf("%s lacks %s:\n%s", unit, line, content[unit])
		}
	}
	for _, line := range []string{
		`RequiresMountsFor="/data $HOME" "/a \"b\" \\c" /units`,
		`ConditionPathExists=/data $HOME/versions/journal.json`,
	} {
		if !strings.Contains(content["teleport-update-recover.service"], line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
}

func TestPathsThatNoUnitCanName(t *testing.T) {
	for _, path := range []string{"relative/bin", "/a\nExecStart=/bin/sh", "/a/../b", "/a/", "/\xff"} {
		if _, err := (Units{Binary: path}).Files(); err == nil {
			t.Errorf("%q was accepted", path)
		}
	}
}

func TestSystemdAcceptsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	for _, name := range []string{"usual folders", "folders with odd names"} {
		t.Run(name, func(t *testing.T) {
			units, root := tempUnits(t)
			if name == "usual folders" {
				units = Units{Binary: units.Binary}
			}
			writeFile(t, units.Binary, "#!/bin/sh\n")
			if err := os.Chmod(units.Binary, 0o755); err != nil {
				t.Fatal(err)
			}
			files, err := units.Files()
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"verify", "--man=no", "--recursive-errors=no"}
			for _, f := range files {
				path := filepath.Join(root, f.Name)
				writeFile(t, path, string(f.Content))
				if f.template != "limits.conf.tmpl" { // it reads drop-ins with their unit
					args = append(args, path)
				}
			}
			out, err := exec.Command(analyze, args...).CombinedOutput()
			if err != nil || strings.Contains(string(out), root) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
