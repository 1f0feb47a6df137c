package systemd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"teleport-update/internal/procfs"
)

// onHost are the conditions that systemd-analyze(1) can be asked about, by their names without the
// kind: those that say the same for every process of the host. Others look at the process that
// asks, see likeInit, or at one moment (ConditionMemoryPressure=).
var onHost = []string{
	"ACPower", "Architecture", "CPUFeature", "ControlGroupController", "FirstBoot", "Firmware", "Group", "Host",
	"KernelCommandLine", "KernelModuleLoaded", "KernelVersion", "Memory", "NeedsUpdate", "OSRelease", "Security", "User", "Version",
	"Virtualization",
}

// askAnalyzeLimit is how long systemd-analyze may take for one condition, which is milliseconds.
const askAnalyzeLimit = 5 * time.Second

// unmetCode is how systemd-analyze ends where a condition does not hold.
const unmetCode = 1

// analyzed has systemd's own program evaluate a condition, of which name is the kind of its setting. The program ends
// with the same code for a condition that it does not know, so its last line has to name the kind.
func analyzed(ctx context.Context, condition, name string) (holds, known bool) {
	ctx, cancel := context.WithTimeout(ctx, askAnalyzeLimit)
	defer cancel()
	environment := os.Environ()
	if !slices.Contains(onHost, name) {
		var err error
		if environment, err = likeInit(ctx, name); err != nil {
			return false, false
		}
	}
	cmd := exec.CommandContext(ctx, "systemd-analyze", "condition", condition)
	cmd.Env = append(environment, "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_LOG_LEVEL=info")
	out, err := cmd.CombinedOutput()
	ended, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return true, true
	case ok && ended.ExitCode() == unmetCode && strings.HasSuffix(strings.TrimSpace(string(out)), "failed."):
		return false, true // "Conditions failed.", "Asserts failed."
	}
	return false, false
}

// likeInit is the environment in which a process that asks about a condition of this name is told what process 1 would be told. It
// is an error if that cannot be had.
func likeInit(ctx context.Context, name string) ([]string, error) {
	switch name {
	case "Environment": // of the services that systemd starts, before their own settings
		out, err := exec.CommandContext(ctx, "systemctl", "show-environment").Output()
		return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool {
			return !strings.Contains(line, "=") || strings.Contains(line, "=$'") // which is quoted for a shell
		}), err
	case "Capability":
		return os.Environ(), procfs.Host().SameAs(1, "CapBnd")
	case "CPUs":
		return os.Environ(), procfs.Host().SameAs(1, "Cpus_allowed")
	}
	return nil, errors.ErrUnsupported
}
