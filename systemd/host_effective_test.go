//go:build hosts

package systemd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commandForms are units of many spellings, by the files that they consist of.
var commandForms = map[string]map[string]string{
	"plain":                           {"/etc/systemd/system/form.service": "ExecStart=/root/form start --config /etc/a.yaml"},
	"a comment inside of a command":   {"/etc/systemd/system/form.service": "ExecStart=/root/form start \\\n# the data\\\n; and more\n  --data-dir /srv/a"},
	"an indented comment inside":      {"/etc/systemd/system/form.service": "ExecStart=/root/form start \\\n   # the data\n  --data-dir /srv/a"},
	"an empty line ends a command":    {"/etc/systemd/system/form.service": "ExecStart=/root/form start \\\n\n--data-dir=/srv/a"},
	"lines that end in CR and LF":     {"/etc/systemd/system/form.service": "ExecStart=/root/form start \\\r\n --data-dir /srv/a\r\nRestart=no\r"},
	"escaped characters":              {"/etc/systemd/system/form.service": `ExecStart=/root/form start --data-dir=/srv/\x61\x2db "--config=/etc/a\sb.yaml" '--x=\t\101\\'`},
	"quotes in the middle of a word":  {"/etc/systemd/system/form.service": `ExecStart=/root/form start --data-dir="/srv/a b"`},
	"quotes inside of quotes":         {"/etc/systemd/system/form.service": `ExecStart=/root/form start "--data-dir='/srv/a'" '--x="b"'`},
	"a variable with quotes in it":    {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env\nExecStart=/root/form start $OPTIONS", "/root/env": `OPTIONS='--data-dir="/srv/a b" --config /etc/a.yaml'`},
	"a variable that keeps its quote": {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env\nExecStart=/root/form start $OPTIONS", "/root/env": `OPTIONS=--data-dir="/srv/a b" --debug`},
	"a file that goes on":             {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env\nExecStart=/root/form start $OPTIONS", "/root/env": "OPTIONS=\"--data-dir \\\n /srv/a\"\nTELEPORT_CONFIG_FILE=/etc/\\\nb.yaml\n"},
	"a file with comments":            {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env\nExecStart=/root/form start", "/root/env": "# TELEPORT_CONFIG_FILE=/etc/a.yaml\n  ; TELEPORT_CONFIG_FILE=/etc/c.yaml\n TELEPORT_CONFIG_FILE = /etc/b.yaml # b \nexport TELEPORT_CONFIG_FILE=/etc/d.yaml\n"},
	"a file with quotes":              {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env\nExecStart=/root/form start", "/root/env": "TELEPORT_CONFIG_FILE=\"/etc/a  b.yaml\"   \n"},
	"a file with backslashes":         {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env\nExecStart=/root/form start", "/root/env": `TELEPORT_CONFIG_FILE=/etc/a\ b\\.yaml`},
	"files by a pattern":              {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env.*\nExecStart=/root/form start", "/root/env.b": "TELEPORT_CONFIG_FILE=/etc/b.yaml", "/root/env.a": "TELEPORT_CONFIG_FILE=/etc/a.yaml"},
	"a file by a specifier":           {"/etc/systemd/system/form.service": "EnvironmentFile=-/root/%p.env\nEnvironmentFile=-/root/%N-%n\nExecStart=/root/form start $OPTIONS", "/root/form.env": "TELEPORT_CONFIG_FILE=/etc/p.yaml", "/root/form-form.service": "OPTIONS=--data-dir=/srv/a"},
	"a variable that is taken away":   {"/etc/systemd/system/form.service": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml OPTIONS=--x\nExecStart=/root/form start $OPTIONS", "/etc/systemd/system/form.service.d/1.conf": "UnsetEnvironment=TELEPORT_CONFIG_FILE"},
	"one value that is taken away":    {"/etc/systemd/system/form.service": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml\nExecStart=/root/form start", "/etc/systemd/system/form.service.d/1.conf": "UnsetEnvironment=TELEPORT_CONFIG_FILE=/etc/b.yaml"},
	"the file before the unit":        {"/etc/systemd/system/form.service": "EnvironmentFile=/root/env\nEnvironment=TELEPORT_CONFIG_FILE=/etc/a.yaml\nExecStart=/root/form start", "/root/env": "TELEPORT_CONFIG_FILE=/etc/b.yaml"},
	"a variable without a value":      {"/etc/systemd/system/form.service": "ExecStart=/root/form start $NONE --data-dir=${NONE}/srv"},
	"a dollar and a percent sign":     {"/etc/systemd/system/form.service": "ExecStart=/root/form start $$ $${A} %% a$b"},
	"a drop-in of all services":       {"/etc/systemd/system/form.service": "ExecStart=/root/form start", "/etc/systemd/system/service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml"},
	"one's own before all services'":  {"/etc/systemd/system/form.service": "ExecStart=/root/form start", "/etc/systemd/system/service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml", "/usr/lib/systemd/system/form.service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/b.yaml"},
	"a drop-in until the next boot":   {"/etc/systemd/system/form.service": "ExecStart=/root/form start", "/run/systemd/system/form.service.d/50.conf": "ExecStart=\nExecStart=/root/form start --data-dir=/srv/a"},
	"a drop-in by systemctl":          {"/etc/systemd/system/form.service": "ExecStart=/root/form start", "/etc/systemd/system.control/form.service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml"},
	"a drop-in of an alias":           {"/etc/systemd/system/form.service": "ExecStart=/root/form start", "/etc/systemd/system/gw.service": "-> form.service", "/etc/systemd/system/gw.service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml"},
	"one's own before an alias's":     {"/etc/systemd/system/form.service": "ExecStart=/root/form start", "/run/systemd/system/gw.service": "-> /etc/systemd/system/form.service", "/etc/systemd/system/gw.service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml", "/usr/lib/systemd/system/form.service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/b.yaml"},
	"an alias's before all services'": {"/etc/systemd/system/form.service": "ExecStart=/root/form start", "/etc/systemd/system/gw.service": "-> form.service", "/etc/systemd/system/service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/a.yaml", "/usr/lib/systemd/system/gw.service.d/50.conf": "Environment=TELEPORT_CONFIG_FILE=/etc/b.yaml"},
	"a unit of this boot only":        {"/run/systemd/system.control/form.service": "ExecStart=/root/form start --config=/etc/b.yaml", "/etc/systemd/system/form.service": "ExecStart=/root/form start --config=/etc/a.yaml"},
	"prefixes":                        {"/etc/systemd/system/form.service": "ExecStart=-+/root/form start --config=/etc/b.yaml"},
	"a name of its own":               {"/etc/systemd/system/form.service": "ExecStart=@/root/form teleport start --config=/etc/b.yaml"},
	"without variables":               {"/etc/systemd/system/form.service": "Environment=A=1\nExecStart=:/root/form start --config=$A ${A}"},
}

// systemd is what says how a unit is read: for each spelling, the service writes down what it was started with.
func TestHostCommandsAreReadAsSystemdReadsThem(t *testing.T) {
	conn := dialHost(t)
	writeHostFile(t, "/root/form", "#!/bin/sh\n{ printf '%s\\n' \"$@\"; echo \"FILE=$TELEPORT_CONFIG_FILE\"; } >/run/form\n")
	if err := os.Chmod("/root/form", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, files := range commandForms {
		for path, content := range files {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if target, link := strings.CutPrefix(content, "-> "); link {
				if err := os.Symlink(target, path); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if strings.Contains(path, "/systemd/") {
				content = "[Service]\n" + content + "\n"
				if strings.HasSuffix(path, "/form.service") {
					content += "Type=oneshot\n"
				}
			}
			writeHostFile(t, path, content)
		}
		os.Remove("/run/form")
		out, err := exec.Command("sh", "-c", "systemctl daemon-reload && systemctl start form").CombinedOutput()
		ran, readErr := os.ReadFile("/run/form")
		got, gotErr := ReadService("form.service", UnitPath())
		u, unitErr := conn.Unit(t.Context(), "form.service")
		next, nextErr := u.NextStart(nil)
		for path := range files {
			os.Remove(path)
		}
		if err != nil || readErr != nil {
			t.Errorf("%s: %v, %v: %s", name, err, readErr, out)
			continue
		}
		want := strings.Split(strings.TrimSuffix(string(ran), "\n"), "\n")
		for by, read := range map[string]ServiceCommand{"the files": got, "what systemd has loaded": next} {
			words := read.Words
			if len(words) > 0 {
				words = append(slices.Clone(words[1:]), "FILE="+read.Environment["TELEPORT_CONFIG_FILE"])
			}
			if err := errors.Join(gotErr, unitErr, nextErr); err != nil || !slices.Equal(words, want) {
				t.Errorf("%s, by %s: %q, %v; systemd starts it with %q", name, by, words, err, want)
			}
		}
	}
	exec.Command("systemctl", "daemon-reload").Run()
}
