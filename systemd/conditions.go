package systemd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/internal/procfs"
	"teleport-update/internal/space"
)

// Condition is one line of Condition…= or Assert…=.
type Condition struct {
	Type      string // "ConditionPathExists", "AssertFileNotEmpty", …
	Trigger   bool   // of the conditions with a pipe symbol, one is enough
	Negated   bool
	Parameter string
}

func (c Condition) String() string {
	text := c.Type + "="
	if c.Trigger {
		text += "|"
	}
	if c.Negated {
		text += "!"
	}
	return text + c.Parameter
}

// parseConditions reads an array of structures: type, trigger, negate, parameter, last result.
func parseConditions(p properties, name string) (found []Condition) {
	for _, fields := range property[[][]any](p, name) {
		if len(fields) < 4 {
			continue
		}
		var c Condition
		c.Type, _ = fields[0].(string)
		c.Trigger, _ = fields[1].(bool)
		c.Negated, _ = fields[2].(bool)
		c.Parameter, _ = fields[3].(string)
		found = append(found, c)
	}
	return found
}

// Unmet returns the conditions that do not hold now, so that systemd would not start the unit. systemd judges Condition…= and
// Assert…= apart: a trigger of one kind does not satisfy the other kind. The results of the last start do not count.
func (t Ties) Unmet(ctx context.Context) []Condition {
	var conditions, asserts []Condition
	for _, c := range t.Conditions {
		if strings.HasPrefix(c.Type, "Assert") {
			asserts = append(asserts, c)
		} else {
			conditions = append(conditions, c)
		}
	}
	return append(unmetOf(ctx, conditions), unmetOf(ctx, asserts)...)
}

// unmetOf is Unmet for the conditions of one kind.
func unmetOf(ctx context.Context, all []Condition) (unmet []Condition) {
	var triggers []Condition
	triggered := false
	for _, c := range all {
		holds, known := c.holds(ctx)
		switch {
		case c.Trigger && (holds || !known):
			triggered = true
		case c.Trigger:
			triggers = append(triggers, c)
		case known && !holds:
			unmet = append(unmet, c)
		}
	}
	if !triggered {
		unmet = append(unmet, triggers...)
	}
	return unmet
}

// onFiles are the conditions that look at files, by their names without the kind.
var onFiles = map[string]func(path string) (bool, error){
	"PathExists":         exists,
	"PathExistsGlob":     globExists,
	"PathIsDirectory":    onInfo(os.FileInfo.IsDir),
	"PathIsMountPoint":   isMountPoint,
	"PathIsSymbolicLink": isSymbolicLink,
	"FileNotEmpty":       onInfo(func(i os.FileInfo) bool { return i.Mode().IsRegular() && i.Size() > 0 }),
	"FileIsExecutable":   onInfo(func(i os.FileInfo) bool { return i.Mode().IsRegular() && i.Mode().Perm()&0o111 != 0 }),
	"DirectoryNotEmpty":  isDirectoryNotEmpty,
	"PathIsReadWrite":    isReadWrite,
}

// holds evaluates a condition as systemd does when it starts the unit. known is false for a
// condition that this program does not evaluate, or cannot look at.
func (c Condition) holds(ctx context.Context) (holds, known bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(c.Type, "Condition"), "Assert")
	look, ok := onFiles[name]
	if !ok {
		c.Trigger = false
		return analyzed(ctx, c.String(), name)
	}
	holds, err := within(func() (bool, error) { return look(c.Parameter) })
	if err != nil && !os.IsNotExist(err) {
		return false, false
	}
	return holds != c.Negated, true
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	return err == nil, err
}

func onInfo(is func(os.FileInfo) bool) func(string) (bool, error) {
	return func(path string) (bool, error) {
		info, err := os.Stat(path)
		return err == nil && is(info), err
	}
}

// isMountPoint follows links, as systemd does.
func isMountPoint(path string) (bool, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	at, err := procfs.Host().MountAt(real)
	return err == nil && at == real, err
}

func isSymbolicLink(path string) (bool, error) {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0, err
}

// isReadWrite looks at the file system as process 1 has it mounted: this process may have a view of its own. It uses its own
// view if it may not look at process 1's.
func isReadWrite(path string) (bool, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	readOnly, err := space.ReadOnly(procfs.Host().SeenBy(1, real))
	if errors.Is(err, fs.ErrPermission) {
		readOnly, err = space.ReadOnly(real)
	}
	return err == nil && !readOnly, err
}

func isDirectoryNotEmpty(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false, err
	}
	entries, err := os.ReadDir(path)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !passedOver(e.Name()) }), err
}

// onHost are the conditions, by their names without the kind, that have the same result for every
// process of the host, so that systemd-analyze(1) can evaluate them. Others look at the process
// that asks, see likeInit, or at one moment (ConditionMemoryPressure=).
var onHost = []string{
	"ACPower", "Architecture", "CPUFeature", "ControlGroupController", "FirstBoot", "Firmware", "Group", "Host",
	"KernelCommandLine", "KernelModuleLoaded", "KernelVersion", "Memory", "NeedsUpdate", "OSRelease", "Security", "User", "Version",
	"Virtualization",
}

// askAnalyzeLimit is how long systemd-analyze may take for one condition; it usually takes milliseconds.
const askAnalyzeLimit = 5 * time.Second

// unmetCode is the exit code of systemd-analyze for a condition that does not hold.
const unmetCode = 1

// analyzed has systemd's own program evaluate a condition; name is the kind of its setting. The program ends with the
// same code for a condition that it does not know, so its last line has to name the kind.
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

// likeInit returns the environment for a process that evaluates a condition of this name, so that it gets the same result as
// process 1. It returns an error if there is no such environment.
func likeInit(ctx context.Context, name string) ([]string, error) {
	switch name {
	case "Environment": // the environment of the services that systemd starts, before their own settings
		out, err := exec.CommandContext(ctx, "systemctl", "show-environment").Output()
		return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool {
			return !strings.Contains(line, "=") || strings.Contains(line, "=$'") // the value is quoted for a shell
		}), err
	case "Capability":
		return os.Environ(), procfs.Host().SameAs(1, "CapBnd")
	case "CPUs":
		return os.Environ(), procfs.Host().SameAs(1, "Cpus_allowed")
	}
	return nil, errors.ErrUnsupported
}
