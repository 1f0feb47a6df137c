package systemd

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ExitStatus is how a main process ended, as waitid(2) reports it. The zero value stands for a
// process that did not end, or whose end systemd does not report.
type ExitStatus struct{ Code, Status int32 }

// Codes of an ExitStatus: the si_code of SIGCHLD.
const (
	Exited = 1
	Killed = 2
	Dumped = 3
)

// notExecuted is the status of a program that systemd could not execute.
const notExecuted = 203

// String completes the sentence "the agent …".
func (e ExitStatus) String() string {
	switch e.Code {
	case Exited:
		switch e.Status {
		case 0:
			return "exited by itself (status 0, but a service has to stay)"
		case notExecuted:
			return "could not be executed (status 203)"
		}
		if name, known := NotStarted(e.Status); known {
			return fmt.Sprintf("was not started, for systemd could not set up its process (status %d, %s: see systemd.exec(5))", e.Status, name)
		}
		return fmt.Sprintf("exited with status %d", e.Status)
	case Killed:
		return "was killed by " + signalName(e.Status)
	case Dumped:
		return "was killed by " + signalName(e.Status) + " and dumped core"
	}
	return "ended (systemd does not say how)"
}

// Quoted is the status in systemd's own words.
func (e ExitStatus) Quoted() string {
	status := fmt.Sprint(e.Status)
	if name, known := NotStarted(e.Status); known && e.Code == Exited {
		status += "/" + name
	}
	if e.Code == Killed || e.Code == Dumped {
		status += "/" + signalName(e.Status)
	}
	return "ExecMainStatus=" + status
}

// Ended completes the sentence "the agent …": how the unit's main process ended, and the reason if
// systemd only asked it to stop. A process that handles the request to stop exits with 0.
func (u Unit) Ended() string {
	if u.Result == "timeout" && (u.Exit.Code == Exited || u.Exit.Terminated()) {
		return fmt.Sprintf("did not say within %v that it is ready, so that systemd stopped it", u.StartTimeout)
	}
	return u.Exit.String()
}

// Terminated reports whether a plain request to stop ended the process.
func (e ExitStatus) Terminated() bool {
	return e.Code == Killed && e.Status == int32(syscall.SIGTERM)
}

func signalName(n int32) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

// NeverBegan reports whether the unit is down because systemd began no process of it: a condition does not hold, a command before it
// (ExecStartPre=, ExecCondition=) failed, or the process could not be set up. It is also true if a program itself ended with such a
// status. A program that could not be executed (203) may be damaged, which speaks against its version.
func (u Unit) NeverBegan() bool {
	_, known := NotStarted(u.Exit.Status)
	notSetUp := known && u.Exit.Code == Exited && u.Exit.Status != notExecuted
	return u.WasSkipped() || u.failedBefore() || notSetUp && !u.Running()
}

// NotExecuted reports whether the last process of the unit was one of systemd's own, which could not execute the unit's
// program: its file, or a link on the way to it, was not there, or is damaged.
func (u Unit) NotExecuted() bool {
	return !u.Running() && u.Exit.Code == Exited && u.Exit.Status == notExecuted
}

// failedBefore reports whether the last start failed before it had a main process: systemd forgets how the previous one ended.
func (u Unit) failedBefore() bool {
	failed := u.ActiveState == "failed" || strings.HasPrefix(u.SubState, "auto-restart")
	by := slices.Contains([]string{"exit-code", "signal", "core-dump", "timeout", "resources"}, u.Result)
	return failed && by && u.MainPID == 0 && u.Exit == (ExitStatus{})
}

// WasSkipped reports whether systemd did not make the last start that it was asked for, by a condition or an assertion.
func (u Unit) WasSkipped() bool { return !u.Skipped.IsZero() && u.ActiveState == "inactive" }

// NotStarted names a status with which systemd itself ends a service that it could not
// execute: systemd.exec(5), "Process exit codes".
func NotStarted(status int32) (name string, known bool) {
	name, known = map[int32]string{
		200: "CHDIR", 201: "NICE", 202: "FDS", 203: "EXEC", 204: "MEMORY", 205: "LIMITS", 206: "OOM_ADJUST", 207: "SIGNAL_MASK", 208: "STDIN",
		209: "STDOUT",
		210: "CHROOT", 211: "IOPRIO", 212: "TIMERSLACK", 213: "SECUREBITS", 214: "SETSCHEDULER", 215: "CPUAFFINITY", 216: "GROUP", 217: "USER",
		218: "CAPABILITIES",
		219: "CGROUP", 220: "SETSID", 221: "CONFIRM", 222: "STDERR", 224: "PAM", 225: "NETWORK", 226: "NAMESPACE", 227: "NO_NEW_PRIVILEGES",
		228: "SECCOMP",
		229: "SELINUX_CONTEXT", 230: "PERSONALITY", 231: "APPARMOR", 232: "ADDRESS_FAMILIES", 233: "RUNTIME_DIRECTORY", 235: "CHOWN",
		236: "SMACK_PROCESS_LABEL",
		237: "KEYRING", 238: "STATE_DIRECTORY", 239: "CACHE_DIRECTORY", 240: "LOGS_DIRECTORY", 241: "CONFIGURATION_DIRECTORY", 242: "NUMA_POLICY",
		243: "CREDENTIALS", 244: "BPF", 245: "KSM",
	}[status]
	return name, known
}
