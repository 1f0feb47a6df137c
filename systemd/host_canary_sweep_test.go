//go:build hosts

package systemd_test

import (
	"os"
	"strings"
	"testing"
)

// oddly are the values of settings by the kind of value that systemd says each takes. Other kinds have a word that is no value.
var oddly = map[string]string{
	"ACTION": "poweroff-immediate", "BOOLEAN": "yes", "UNIT [...]": "poweroff.target", "UNIT": "poweroff.target",
	"PATH": "/nosuch", "PATH [...]": "/nosuch", "PATH [ARGUMENT [...]]": "/bin/sleep 1000", "SECONDS": "1", "LIMIT": "1", "SIGNAL": "SIGKILL",
	"STATUS": "1", "UNSIGNED": "1", "WEIGHT": "1", "MODE": "0000", "KILLMODE": "none", "SERVICERESTART": "always", "SERVICETYPE": "dbus",
	"NICE": "19", "STRING": "x", "SLICE": "odd.slice", "INPUT": "tty-force", "OUTPUT": "tty", "SOCKETS": "systemd-journald.socket",
}

// A canary of a service that has any setting of this systemd, with an odd value, ends, and leaves the host and the service as they were.
func TestHostCanarySweepOfAllSettings(t *testing.T) {
	if os.Getenv("CANARY_SWEEP") == "" {
		t.Skip("this is for the night: `make test-nightly` runs it")
	}
	conn := canaried(t)
	section, tried, before := "", 0, stateOf(t)
	for _, line := range strings.Split(shell(t, "/lib/systemd/systemd --dump-configuration-items"), "\n") {
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		name, kind, is := strings.Cut(line, "=")
		if !is || section != "[Service]" && section != "[Unit]" {
			continue
		}
		value, known := oddly[kind]
		if !known {
			value = "nosuch"
		}
		write(t, dropIn, section+"\n"+name+"="+value+"\n")
		t.Logf("%s=%s: %s", name, value, try(t, conn).Why())
		tried++
		if left := shell(t, "ls -d /run/systemd/system/tu-canary-* 2>/dev/null; pgrep -af '[t]eleport version'; pgrep -a sleep | grep -v infinity; true"); left != "" {
			t.Errorf("%s=%s: a trial left:\n%s", name, value, left)
		}
		if after := stateOf(t); after != before {
			t.Fatalf("%s=%s: the service was %q, and is %q", name, value, before, after)
		}
	}
	os.Remove(dropIn)
	if state := shell(t, "systemctl list-jobs --no-legend; true"); tried < 300 || state != "" {
		t.Errorf("%d settings were tried; jobs: %s", tried, state)
	}
}
