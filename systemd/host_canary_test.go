//go:build hosts

package systemd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/systemd"
	"teleport-update/systemd/canary"
)

const (
	service = "canaried.service"
	program = "/opt/canaried/bin/teleport"
	dropIn  = "/etc/systemd/system/canaried.service.d/50-case.conf"
)

// canaried is a host with a service that runs, whose program prints its version.
func canaried(t *testing.T) *systemd.Conn {
	t.Helper()
	if os.Getenv("DISPOSABLE_HOST") == "" {
		t.Skip("DISPOSABLE_HOST is not set: this would change the units of the host it runs on")
	}
	conn, err := systemd.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shell(t, "mkdir -p "+filepath.Dir(program)+" "+filepath.Dir(dropIn))
	write(t, program, "#!/bin/sh\ncase $1 in version) echo Teleport v1.1.0;; *) exec sleep infinity;; esac\n")
	shell(t, "chmod 755 "+program)
	write(t, "/etc/systemd/system/"+service, "[Service]\nExecStart="+program+" start\nRestart=always\n")
	shell(t, "systemctl daemon-reload && systemctl start "+service)
	t.Cleanup(func() {
		shell(t, "systemctl stop "+service+"; rm -rf /etc/systemd/system/canaried.service* /opt/canaried; systemctl daemon-reload")
		conn.Close()
	})
	return conn
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func shell(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// try tries a start of the service as its files say it.
func try(t *testing.T, conn *systemd.Conn) systemd.Tried {
	t.Helper()
	s := canary.Service{Name: service}
	var err error
	if s.Unit, s.After, err = systemd.FilesOf(service, systemd.UnitPath()); err != nil {
		t.Fatal(err)
	}
	tried, err := conn.Try(t.Context(), func(output string) []byte {
		return canary.Unit(s, canary.Trial{Program: program, Output: output})
	})
	if err != nil {
		t.Fatal(err)
	}
	return tried
}

// nothingLeft fails the test if something of a trial is left, or the service was touched.
func nothingLeft(t *testing.T, name, before string) {
	t.Helper()
	left := shell(t, "ls -d /run/systemd/system/tu-canary-* 2>/dev/null; systemctl list-units --all --plain --no-legend 'tu-canary-*'; pgrep -af '[t]eleport version'; true")
	if left != "" {
		t.Errorf("%s: a trial left:\n%s", name, left)
	}
	if after := stateOf(t); after != before {
		t.Errorf("%s: the service was %q, and is %q", name, before, after)
	}
}

func stateOf(t *testing.T) string {
	return shell(t, "systemctl show -p MainPID -p InvocationID -p ActiveState "+service)
}

// Whatever keeps systemd from starting the service's processes shows in its canary, in systemd's words, and the service runs on.
func TestHostCanaryShowsWhatKeepsAServiceFromStarting(t *testing.T) {
	conn := canaried(t)
	const S, U = "[Service]\n", "[Unit]\n"
	for _, c := range []struct{ name, dropIn, begin, end, says string }{
		{name: "nothing", dropIn: S},
		{name: "user", dropIn: S + "User=nosuch\n", says: "217, USER"},
		{name: "group", dropIn: S + "Group=nosuch\n", says: "216, GROUP"},
		{name: "more groups", dropIn: S + "SupplementaryGroups=nosuch\n", says: "216, GROUP"},
		{name: "hidden program", dropIn: S + "InaccessiblePaths=/opt/canaried\n", says: "203"},
		{name: "program below an empty file system", dropIn: S + "TemporaryFileSystem=/opt\n", says: "203"},
		{name: "program that may not be executed", dropIn: S + "NoExecPaths=/opt\n", says: "203"},
		{name: "program closed to the user", dropIn: S + "User=nobody\n", begin: "chmod 700 /opt/canaried", end: "chmod 755 /opt/canaried", says: "203"},
		{name: "program closed, started with full privileges", dropIn: S + "User=nobody\nExecStart=\nExecStart=+" + program + " start\n",
			begin: "chmod 700 /opt/canaried", end: "chmod 755 /opt/canaried"},
		{name: "noexec", begin: "mount --bind /opt/canaried /opt/canaried; mount -o remount,bind,noexec /opt/canaried", end: "umount /opt/canaried", says: "203"},
		{name: "folder to work in", dropIn: S + "WorkingDirectory=/nosuch\n", says: "200, CHDIR"},
		{name: "root", dropIn: S + "RootDirectory=/nosuch\n", says: "226, NAMESPACE"},
		{name: "file of variables", dropIn: S + "EnvironmentFile=/nosuch\n", says: "Failed to load environment files"},
		{name: "bound path", dropIn: S + "BindPaths=/nosuch:/mnt\n", says: "226, NAMESPACE"},
		{name: "writable path", dropIn: S + "ReadWritePaths=/nosuch\n", says: "226, NAMESPACE"},
		{name: "namespace of a network", dropIn: S + "NetworkNamespacePath=/nosuch\n", says: "225, NETWORK"},
		{name: "credential", dropIn: S + "LoadCredential=x:/nosuch\n", says: "243, CREDENTIALS"},
		{name: "file for output", dropIn: S + "StandardOutput=append:/nosuch/x\n", says: "222, STDERR"},
		{name: "file for input", dropIn: S + "StandardInput=file:/nosuch\n", says: "208, STDIN"},
		{name: "no CPU", dropIn: S + "CPUAffinity=900\n", says: "215, CPUAFFINITY"},
		{name: "no NUMA node", dropIn: S + "NUMAPolicy=bind\nNUMAMask=63\n", says: "242, NUMA_POLICY"},
		{name: "system calls", dropIn: S + "SystemCallFilter=@basic-io\n", says: "SIGSYS"},
		{name: "address space", dropIn: S + "LimitAS=100K\n", says: "killed by"},
		{name: "masked slice", dropIn: S + "Slice=gone.slice\n", begin: "ln -s /dev/null /etc/systemd/system/gone.slice", end: "rm /etc/systemd/system/gone.slice",
			says: "masked"},
		{name: "PAM", dropIn: S + "PAMName=nosuch\nUser=nobody\n"}, // pam.d/other of Debian lets it in
		{name: "for all services", begin: "mkdir -p /etc/systemd/system/service.d; printf '[Service]\\nUser=nosuch\\n' > /etc/systemd/system/service.d/1.conf",
			end: "rm -r /etc/systemd/system/service.d", says: "217, USER"},
		{name: "for all services, overruled by the unit's", dropIn: S + "Group=root\n",
			begin: "mkdir -p /etc/systemd/system/service.d; printf '[Service]\\nGroup=nosuch\\n' > /etc/systemd/system/service.d/10-x.conf",
			end:   "rm -r /etc/systemd/system/service.d"},
		{name: "for all services, over the unit's", dropIn: S + "Group=root\n",
			begin: "mkdir -p /etc/systemd/system/service.d; printf '[Service]\\nGroup=nosuch\\n' > /etc/systemd/system/service.d/70-x.conf",
			end:   "rm -r /etc/systemd/system/service.d", says: "216, GROUP"},
		{name: "for all services, hidden by the unit's of the same name", dropIn: S + "Group=root\n",
			begin: "mkdir -p /etc/systemd/system/service.d; printf '[Service]\\nGroup=nosuch\\n' > /etc/systemd/system/service.d/50-case.conf",
			end:   "rm -r /etc/systemd/system/service.d"},
		{name: "specifier of the name", dropIn: S + "EnvironmentFile=/etc/default/%N.env\n", begin: "echo A=b > /etc/default/canaried.env", end: "rm /etc/default/canaried.env"},
		{name: "folder that systemd makes at the start", dropIn: S + "RuntimeDirectory=later\nWorkingDirectory=/run/later\nReadWritePaths=/run/later\n"},
		{name: "PID file of the service", dropIn: S + "PIDFile=/run/canaried.pid\n", begin: "systemctl show -P MainPID " + service + " > /run/canaried.pid", end: "rm /run/canaried.pid"},
		{name: "actions", dropIn: U + "SuccessAction=poweroff\nFailureAction=reboot\nOnFailure=poweroff.target\nOnSuccess=poweroff.target\n" + S + "User=nosuch\n", says: "217, USER"},
		{name: "not when asked", dropIn: U + "RefuseManualStart=yes\n"},
		{name: "condition", dropIn: U + "ConditionPathExists=/nosuch\nAssertPathExists=/nosuch\n"},
		{name: "commands around", dropIn: S + "ExecStartPre=/bin/false\nExecStartPost=/bin/false\nExecStopPost=/bin/rm -rf /opt/canaried\n"},
		{name: "dependencies", dropIn: U + "Requires=nosuch.service\nPartOf=dbus.socket\nConflicts=systemd-journald.service\n"},
		{name: "unknown setting", dropIn: S + "Nosuch=1\n"},
		{name: "dynamic user", dropIn: S + "DynamicUser=yes\nStateDirectory=dyn\n"},
		{name: "program cut to nothing", begin: "mv " + program + " /opt/k; : > " + program + "; chmod 755 " + program, end: "mv /opt/k " + program, says: "203"},
		{name: "program that fails", begin: "mv " + program + " /opt/k; printf '#!/bin/sh\\necho no library >&2; exit 127\\n' > " + program + "; chmod 755 " + program,
			end: "mv /opt/k " + program, says: `exited with status 127; it printed "no library"`},
	} {
		if c.dropIn != "" {
			write(t, dropIn, c.dropIn)
		}
		if c.begin != "" {
			shell(t, c.begin)
		}
		before := stateOf(t)
		tried := try(t, conn)
		switch why := tried.Why(); {
		case c.says == "" && !tried.Well():
			t.Errorf("%s: the canary failed: %s", c.name, why)
		case c.says == "" && !strings.Contains(tried.Output, "Teleport v1.1.0"):
			t.Errorf("%s: it printed %q", c.name, tried.Output)
		case c.says != "" && (tried.Well() || !strings.Contains(why, c.says)):
			t.Errorf("%s: well %v, %s; want %q", c.name, tried.Well(), why, c.says)
		default:
			t.Logf("%s: %s", c.name, why)
		}
		if c.end != "" {
			shell(t, c.end)
		}
		os.Remove(dropIn)
		nothingLeft(t, c.name, before)
	}
}

// A trial whose process was ended leaves a unit that failed, which the next trial removes. The unit of a process that is there stays.
func TestHostCanaryRemovesWhatAnEndedTrialLeft(t *testing.T) {
	conn := canaried(t)
	ended := exec.Command("/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	left, theirs := fmt.Sprintf("tu-canary-%d-abc.service", ended.Process.Pid), "tu-canary-1-abc.service"
	for _, name := range []string{left, theirs} {
		write(t, "/run/systemd/system/"+name, "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/false\n")
		shell(t, "mkdir /run/systemd/system/"+name+".d; mkfifo /run/systemd/system/"+name+".d/output; ! systemctl start "+name)
	}
	before := stateOf(t)
	if !try(t, conn).Well() {
		t.Error("the canary failed")
	}
	if failed := shell(t, "systemctl list-units --state=failed --plain --no-legend 'tu-canary-*' | cut -d' ' -f1"); failed != theirs {
		t.Errorf("failed units are %q, want %q", failed, theirs)
	}
	shell(t, "systemctl reset-failed "+theirs+"; rm -r /run/systemd/system/"+theirs+"*")
	nothingLeft(t, "an ended trial", before)
}

// A job of another unit that keeps systemd from a trial says nothing about the service.
func TestHostCanaryIsNoVerdictIfOtherJobsAreInItsWay(t *testing.T) {
	conn := canaried(t)
	write(t, "/etc/systemd/system/holds.service", "[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep infinity\nSlice=held.slice\nTimeoutStopSec=60\n")
	write(t, dropIn, "[Service]\nSlice=held.slice\n")
	shell(t, "systemctl start holds && systemctl stop --no-block --job-mode=replace-irreversibly held.slice")
	defer shell(t, "systemctl kill -s KILL holds; systemctl stop held.slice; rm /etc/systemd/system/holds.service "+dropIn+"; systemctl daemon-reload")
	before := stateOf(t)
	s := canary.Service{Name: service}
	var err error
	if s.Unit, s.After, err = systemd.FilesOf(service, systemd.UnitPath()); err != nil {
		t.Fatal(err)
	}
	tried, err := conn.Try(t.Context(), func(output string) []byte {
		return canary.Unit(s, canary.Trial{Program: program, Output: output})
	})
	if err == nil || !strings.Contains(err.Error(), "destructive") {
		t.Errorf("it ends with %v; tried: %s", err, tried.Why())
	}
	nothingLeft(t, "a trial beside other jobs", before)
}
