package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mostExposed is the worst exposure of the timer's service, as "systemd-analyze security"
// counts it: 10 is a service without limits. It was 9.6 without the directives.
const mostExposed = 7.0

func TestTheTimersServiceIsNotOpenToEverything(t *testing.T) {
	help, err := exec.Command("systemd-analyze", "--help").CombinedOutput()
	if err != nil || !bytes.Contains(help, []byte("--offline")) {
		t.Skip("systemd-analyze is not here, or does not measure files")
	}
	files, err := Units{Binary: "/usr/bin/teleport-update"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name != "teleport-update.service" {
			continue
		}
		path := filepath.Join(t.TempDir(), f.Name)
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", path).CombinedOutput()
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
		if m == nil {
			t.Fatalf("%v: %s", err, out)
		}
		exposure, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil || exposure > mostExposed {
			t.Errorf("its exposure is %s; at most %v is wanted\n%s", m[1], mostExposed, out)
		}
		t.Logf("MEASURED: exposure of %s: %s", f.Name, m[1])
	}
}

// What would keep the updater or an administrator's hook from its work, and what could keep
// the recovery at boot from starting, is in no unit.
func TestNoUnitIsKeptFromItsWork(t *testing.T) {
	files, err := Units{Binary: "/usr/bin/teleport-update"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for line := range strings.Lines(string(f.Content)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
			for _, never := range []string{
				"ProtectSystem", "ProtectHome", "ReadOnlyPaths", "InaccessiblePaths", "PrivateTmp", "ProtectProc", "ProcSubset", "PrivateUsers", "DynamicUser",
				"NoNewPrivileges", "RestrictNamespaces", "MemoryDenyWriteExecute", "RestrictSUIDSGID", "PrivateNetwork", "User",
			} {
				if name == never {
					t.Errorf("%s has %s", f.Name, strings.TrimSpace(line))
				}
			}
			sandbox := strings.HasPrefix(name, "Protect") || strings.HasPrefix(name, "Restrict") || strings.HasPrefix(name, "SystemCall") || name == "CapabilityBoundingSet"
			if sandbox && strings.Contains(f.Name, "recover") {
				t.Errorf("the recovery has %s", strings.TrimSpace(line))
			}
		}
	}
}
