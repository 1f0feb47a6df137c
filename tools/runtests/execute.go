package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"teleport-update/integration/sample"
)

// execute runs go test and shows what it says. The code is go test's. The whole run, of
// which this may be the last part, began before.
func (t *test) execute(whole time.Time, signals <-chan os.Signal, show *screen) (code int, interrupted bool, err error) {
	begun := time.Now()
	defer func() { t.took = time.Since(begun) }()
	args := append([]string{"test", "-json"}, t.flags...)
	for _, p := range t.parts {
		args = append(args, p.pkg)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), t.environment(whole)...)
	cmd.Stderr = os.Stderr
	// A group of its own: an interrupt is passed on to all of it, once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, false, err
	}
	if err := cmd.Start(); err != nil {
		return 1, false, err
	}
	lines := make(chan []byte)
	go read(out, lines)
	minute := time.NewTicker(show.every)
	defer minute.Stop()
	for open := true; open; {
		select {
		case line, more := <-lines:
			if open = more; more {
				t.take(line, show)
			}
		case <-minute.C:
			show.still(t.parts)
		case s := <-signals:
			interrupted = true
			pass := syscall.SIGINT
			if s == syscall.SIGQUIT {
				pass = syscall.SIGQUIT
			}
			syscall.Kill(-cmd.Process.Pid, pass)
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		// A signal is no exit code.
		return max(exit.ExitCode(), 1), interrupted, nil
	}
	return 0, interrupted, err
}

// environment is what tests know of the whole run, which began at some time.
func (t *test) environment(began time.Time) (env []string) {
	if t.faults {
		env = append(env, "FAULTS=all")
	}
	if t.sampled && os.Getenv(sample.Until) == "" {
		env = append(env, fmt.Sprintf("%s=%d", sample.Until, began.Add(samplesEnd).Unix()))
	}
	return env
}

func read(out io.Reader, lines chan<- []byte) {
	defer close(lines)
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			lines <- line
		}
		if err != nil {
			return
		}
	}
}

// take handles one line of go test's.
func (t *test) take(line []byte, show *screen) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		show.say(string(line))
		return
	}
	if e.Action == "build-output" {
		show.built(e)
		return
	}
	for _, p := range t.parts {
		if p.pkg != e.Package {
			continue
		}
		p.take(e)
		show.event(p, e)
		if p.ended {
			if e.FailedBuild != "" {
				p.closing = fmt.Sprintf("FAIL\t%s [build failed]", p.pkg)
			}
			show.done(p)
		}
	}
}
