package systemd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// canaryPrefix begins the names of units that exist for one trial. The id of the process that tries comes next. A name that begins with
// "teleport-" would have the drop-ins of teleport-.service.d.
const canaryPrefix = "tu-canary-"

const (
	// canaryDir is empty after each boot. A trial makes one file and one folder in it.
	canaryDir = "/run/systemd/system"
	// canaryLimit bounds a trial: the unit's own limits for a start and a stop are shorter.
	canaryLimit = 2 * time.Minute
	// wordsLimit bounds the wait for the journal.
	wordsLimit = 5 * time.Second
	// mostPrinted is how much of the program's output is read, in bytes: a pipe has room for it.
	mostPrinted = 16 << 10
)

// Tried says how a trial of a unit ended.
type Tried struct {
	Unit   Unit
	Output string   // what the program printed
	Words  []string // systemd's, about a failure
}

// Well reports whether systemd started the program, and the program ended well. A unit that was skipped is not active.
func (t Tried) Well() bool {
	return t.Unit.ActiveState == "active" && t.Unit.Result == "success" && t.Unit.Exit == ExitStatus{Code: Exited}
}

// Why says what a trial that did not end well shows. It completes the sentence "systemd tried the program, and it …".
func (t Tried) Why() string {
	why := "was not begun"
	switch {
	case t.Unit.Result == "timeout":
		why = "did not end in time"
	case t.Well():
		why = "printed nothing"
	case t.Unit.Exit != ExitStatus{}:
		why = t.Unit.Exit.String()
	case t.Unit.Result != "success":
		why += fmt.Sprintf(" (result %q)", t.Unit.Result)
	}
	if len(t.Words) > 0 {
		return fmt.Sprintf("%s: %q", why, strings.Join(t.Words, "; "))
	}
	if out := strings.TrimSpace(t.Output); out != "" {
		return fmt.Sprintf("%s; it printed %.300q", why, out)
	}
	return why
}

// Try starts a unit that exists only for the trial, and removes it in every way out. text returns the unit's file for the path of a
// pipe that takes the program's output.
//
// systemd reads a unit that is new to it without reading all others again. Drop-ins for all services are masked for the unit: its file
// has them already, in the order that counts for the service that it stands for.
func (c *Conn) Try(ctx context.Context, text func(output string) []byte) (t Tried, err error) {
	c.removeCanaries(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, canaryLimit, errors.New("systemd did not end the trial of a unit in time"))
	defer cancel()
	name := fmt.Sprintf("%s%d-%s.service", canaryPrefix, os.Getpid(), strings.ToLower(rand.Text()[:10]))
	defer c.removeCanary(context.WithoutCancel(ctx), name)
	pipe, err := writeCanary(name, text)
	if err != nil {
		return t, fmt.Errorf("write a unit for a trial: %w", err)
	}
	defer pipe.Close()
	started := c.runJob(ctx, VerbStart, name)
	if t.Unit, err = c.Unit(ctx, name); err != nil {
		return t, err
	}
	t.Output = printed(pipe)
	job, ended := errors.AsType[*JobError](started)
	switch {
	case started == nil, ended && job.Result == "failed":
	case IsDenied(started), isAboutOthers(started):
		return t, fmt.Errorf("try a unit: %w", started)
	case ended && job.Result == "" && ctx.Err() == nil && !errors.Is(started, ErrBroken): // it did not even load the unit
		t.Words = []string{job.Err.Error()}
		return t, nil
	default:
		return t, fmt.Errorf("try a unit: %w", whyEnded(ctx, started))
	}
	if !t.Well() {
		t.Words = wordsOf(ctx, name)
	}
	return t, nil
}

// writeCanary writes the files of a unit and opens its pipe, for reading and writing: a writer never waits for a reader.
func writeCanary(name string, text func(output string) []byte) (*os.File, error) {
	dir := filepath.Join(canaryDir, name+".d")
	output := filepath.Join(dir, "output")
	others, err := dropIns(name, UnitPath())
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	for _, file := range others {
		if err := os.Symlink("/dev/null", filepath.Join(dir, filepath.Base(file))); err != nil {
			return nil, err
		}
	}
	if err := unix.Mkfifo(output, 0o600); err != nil {
		return nil, err
	}
	pipe, err := os.OpenFile(output, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(canaryDir, name), text(output), 0o644); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return pipe, nil
}

// printed returns what is in a pipe.
func printed(pipe *os.File) string {
	if pipe.SetReadDeadline(time.Now().Add(100*time.Millisecond)) != nil {
		return ""
	}
	var all []byte
	for part := make([]byte, mostPrinted); len(all) < mostPrinted; {
		n, err := pipe.Read(part)
		all = append(all, part[:n]...)
		if err != nil {
			break
		}
	}
	return string(all)
}

// removeCanaries removes the units and files of trials whose process was ended. A failed unit would show as a fault of the host.
func (c *Conn) removeCanaries(ctx context.Context) {
	left, _ := filepath.Glob(filepath.Join(canaryDir, canaryPrefix+"*"))
	for _, path := range left {
		name := strings.TrimSuffix(filepath.Base(path), ".d")
		if !isBeingTried(name) {
			c.removeCanary(ctx, name)
		}
	}
}

// isBeingTried reports whether the process in the name of a canary is there.
func isBeingTried(name string) bool {
	id, _, _ := strings.Cut(strings.TrimPrefix(name, canaryPrefix), "-")
	pid, err := strconv.Atoi(id)
	return err == nil && pid > 0 && unix.Kill(pid, 0) == nil
}

// removeCanary removes a unit and its files. systemd forgets the unit once it is down.
func (c *Conn) removeCanary(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, canaryLimit)
	defer cancel()
	c.removeUnit(ctx, name)
	path := filepath.Join(canaryDir, name)
	_ = os.Remove(path)
	_ = os.RemoveAll(path + ".d")
}

// canariesLeft reports whether there are files of trials.
func canariesLeft() bool {
	left, err := filepath.Glob(filepath.Join(canaryDir, canaryPrefix+"*"))
	return err == nil && len(left) > 0
}

// Ids of the journal's messages of systemd (sd-messages.h).
const (
	spawnFailed = "641257651c1b4ec9a8624d7a40a9e1e7" // a process could not be set up
	unitFailed  = "be02cf6855d2428ba40df7e9d022f03d" // these say that the unit failed, and not why
	unitResult  = "d9b373ed55a64feb8242e02dbe79a49c"
	processExit = "98e322203f7a4ed290d09fe03c09fe15"
)

// wordsOf returns systemd's words in the journal about the failure of a unit; none if the journal has none. Without words, the unit's
// result and the status of its process say what happened.
func wordsOf(ctx context.Context, name string) []string {
	ctx, cancel := context.WithTimeout(ctx, wordsLimit)
	defer cancel()
	_ = exec.CommandContext(ctx, "journalctl", "--sync").Run()
	out, err := exec.CommandContext(ctx, "journalctl", "--quiet", "--no-pager", "--boot", "--output=json", "--lines=20", "--priority=warning",
		"UNIT="+name).Output()
	if err != nil {
		return nil
	}
	return parseWords(name, string(out))
}

// parseWords reads lines of JSON about a unit. The reason for which a process could not be set up comes alone.
func parseWords(name, journal string) (words []string) {
	var setUp []string
	for line := range strings.Lines(journal) {
		var entry struct {
			Message string `json:"MESSAGE"`
			ID      string `json:"MESSAGE_ID"`
		}
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Message == "" {
			continue
		}
		message := strings.TrimPrefix(entry.Message, name+": ")
		switch entry.ID {
		case spawnFailed:
			setUp = append(setUp, message)
		case unitFailed, unitResult, processExit:
		default:
			words = append(words, message)
		}
	}
	if len(setUp) > 0 {
		words = setUp
	}
	return slices.Compact(words)
}
