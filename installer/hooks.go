package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/trust"
)

const (
	// hookLimit is how long one hook may take; see Installer.HookLimit.
	hookLimit = 30 * time.Second
	// Older news are not reported: the history was lost, say.
	hookNews = 24 * time.Hour
	// hookOutput is how much of a failed hook's output is logged.
	hookOutput = 400
)

// runHooks runs the programs of an administrator after a transaction. By then the journal is closed and no lock is held: a hook's failure
// is logged, and only this command, which is done, waits for a hook.
//
// They are in /etc, not below the data folder: they are an administrator's configuration,
// and stay when the updater goes.
func (i *Installer) runHooks(ctx context.Context, s state.Ended) {
	if i.Machine.Host.Paths.Hooks == "" || i.Machine.Now().Sub(s.Time) > hookNews {
		return
	}
	dir := filepath.Join(i.Machine.Host.Paths.Hooks, "on-failure.d")
	if s.Result == state.Succeeded {
		dir = filepath.Join(i.Machine.Host.Paths.Hooks, "on-success.d")
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = trust.Path(dir)
	}
	if err != nil {
		i.Machine.Host.Log.Warn("the hooks are not run: give their folder to root alone", "folder", dir, "error", err)
		return
	}
	for _, entry := range entries {
		if !isHook(entry.Name()) {
			continue
		}
		file := filepath.Join(dir, entry.Name())
		err := trust.Executable(file)
		if err == nil {
			err = runHook(ctx, i.HookLimit, file, hookEnvironment(s))
		}
		if err != nil {
			i.Machine.Host.Log.Warn("a hook failed; the result of the update is not affected", "hook", file, "error", err)
		}
	}
}

// isHook leaves out files that editors and packages leave beside a file.
func isHook(name string) bool {
	packages := func(part string) bool { return strings.Contains(name, part) }
	return !slices.ContainsFunc([]string{".dpkg-", ".rpm", ".ucf-"}, packages) && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name,
		"~")
}

func hookEnvironment(s state.Ended) []string {
	env := []string{"PATH=" + rootPath}
	for _, variable := range os.Environ() {
		// The variables of this run are not for a run that a hook may begin.
		if !strings.HasPrefix(variable, survey.OwnVariable) && !strings.HasPrefix(variable, "PATH=") {
			env = append(env, variable)
		}
	}
	for name, value := range map[string]string{
		"OUTCOME": string(s.Result), "CAUSE": s.Cause, "BY": s.By, "REASON": s.Error, "TIME": s.Time.Format(time.RFC3339),
		"FROM": s.From.Version, "FROM_EDITION": string(s.From.Edition), "TO": s.To.Version, "TO_EDITION": string(s.To.Edition),
	} {
		env = append(env, survey.OwnVariable+"HOOK_"+name+"="+value)
	}
	return env
}

func runHook(ctx context.Context, limit time.Duration, file string, env []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not end within %v and was killed", limit))
	defer cancel()
	var out strings.Builder
	cmd := exec.CommandContext(ctx, file)
	cmd.Dir, cmd.Env = "/", env
	cmd.Stdout = boundedWriter{&out, hookOutput}
	cmd.Stderr = cmd.Stdout
	// A process group of its own, so that the time limit ends its children, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && out.Len() > 0 {
		err = fmt.Errorf("%w; it printed %q", err, strings.TrimSpace(out.String()))
	}
	return err
}

// boundedWriter keeps the beginning of the output and drops the rest.
type boundedWriter struct {
	to    *strings.Builder
	limit int
}

func (w boundedWriter) Write(p []byte) (int, error) {
	w.to.Write(p[:min(len(p), w.limit-w.to.Len())])
	return len(p), nil
}
