package versions

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"teleport-update/internal/trust"
	"teleport-update/internal/version"
)

const (
	smokeLimit  = 30 * time.Second
	smokeOutput = 64 << 10
	// busyTries and busyPause bound the wait for a binary that is "busy": a
	// process forked at the wrong moment holds it open for writing until it
	// has executed something itself (go.dev/issue/22315).
	busyTries = 20
	busyPause = 50 * time.Millisecond
	// outputLimit bounds how long the reading of a program's output may take after its end. A child
	// of the program may hold the output open; and on a busy host this process may be held off for a
	// second, which is not the version's fault.
	outputLimit = 10 * time.Second
)

// Smoke runs "teleport version" of this tree and returns an error unless it names the tree's
// version. It runs in a clean environment, for at most 30 seconds, and, as root, only a program
// that nobody but root can change.
func (t Tree) Smoke(ctx context.Context) error {
	program := t.Binary(agentName)
	out, err := askVersion(ctx, program)
	if err == nil && !slices.Contains(namedVersions(out), t.Release.Version) {
		err = fmt.Errorf("%q does not name that version%s", program+" version", excerpt(out))
	}
	return err
}

// ProgramVersion asks an agent's program, wherever it is, for its version, in the
// manner and within the limits of Smoke.
func ProgramVersion(ctx context.Context, program string) (string, error) {
	out, err := askVersion(ctx, program)
	if err != nil {
		return "", err
	}
	if named := namedVersions(out); len(named) > 0 {
		return named[0], nil
	}
	return "", fmt.Errorf("%q names no version%s", program+" version", excerpt(out))
}

// ProgramEdition asks an agent's program for its edition, in the manner and within the limits
// of Smoke. A FIPS build names the cryptography that it was built with, or its build tags do.
func ProgramEdition(ctx context.Context, program string) (version.Edition, error) {
	out, err := askVersion(ctx, program)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case len(words) < 2 || words[0] != "Teleport":
			continue
		case words[1] != "Enterprise":
			return version.OSS, nil
		case namesFIPS(line) || builtForFIPS(program):
			return version.FIPS, nil
		}
		return version.Enterprise, nil
	}
	return "", fmt.Errorf("%q names no edition%s", program+" version", excerpt(out))
}

func namesFIPS(line string) bool {
	line = strings.ToLower(line)
	return strings.Contains(line, "boringcrypto") || strings.Contains(line, "fips")
}

// builtForFIPS reads the build information of a program, without running it.
func builtForFIPS(program string) bool {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		switch s.Key {
		case "-tags":
			return slices.Contains(strings.Split(s.Value, ","), "fips")
		case "GOEXPERIMENT":
			return strings.Contains(s.Value, "boringcrypto")
		case "GOFIPS140":
			return s.Value != "" && s.Value != "off"
		}
		return false
	})
}

func askVersion(ctx context.Context, program string) (string, error) {
	if err := trust.Executable(program); err != nil {
		return "", &HostError{err} // others can write to its folder
	}
	ctx, cancel := context.WithTimeoutCause(ctx, smokeLimit, fmt.Errorf("no answer within %v", smokeLimit))
	defer cancel()
	out, err := runVersion(ctx, program)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err = blameHost(err, out); err != nil {
		err = fmt.Errorf("%q fails: %w%s", program+" version", whyNotRun(err), excerpt(out))
	}
	return out, err
}

// whyNotRun leaves out the program's path, which the caller adds, and explains the kernel's words.
func whyNotRun(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w (is its file system mounted noexec?)", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w (is it made for another kind of machine?)", err)
	}
	return err
}

func runVersion(ctx context.Context, program string) (string, error) {
	for try := 1; ; try++ {
		var out boundedOutput
		cmd := exec.CommandContext(ctx, program, "version")
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C"}
		cmd.Stdout, cmd.Stderr = &out, &out
		// A process group of its own, so that the time limit ends its children, too.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = outputLimit
		err := cmd.Run()
		if !errors.Is(err, syscall.ETXTBSY) || try == busyTries {
			return out.String(), err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(busyPause):
		}
	}
}

// namedVersions returns the versions in lines like "Teleport … v15.1.1 …", each a word of its own.
func namedVersions(out string) (named []string) {
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "Teleport" {
			continue
		}
		for _, w := range words[1:] {
			if v, err := version.Parse(w); err == nil && w == "v"+v {
				named = append(named, v)
			}
		}
	}
	return named
}

func excerpt(out string) string {
	out = strings.TrimSpace(out)
	if out == "" {
		return ""
	}
	return fmt.Sprintf("; it printed %.200q", out)
}

// boundedOutput keeps the beginning of what is written and drops the rest.
type boundedOutput struct{ strings.Builder }

func (b *boundedOutput) Write(p []byte) (int, error) {
	b.Builder.Write(p[:min(len(p), smokeOutput-b.Len())])
	return len(p), nil
}
