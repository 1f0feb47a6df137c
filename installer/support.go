package installer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"teleport-update/installer/view"
	"teleport-update/internal/regular"
	"teleport-update/internal/space"
	"teleport-update/internal/webclient"
)

const (
	// A part of the bundle has at most so many bytes; of a journal it is the end that counts.
	maxPart    = 256 << 10
	maxJournal = 1 << 20
	// partPatience bounds each part: half of the host may be broken.
	partPatience = 20 * time.Second
)

// Support writes all that somebody who helps wants to see as one tar.gz, of five
// megabytes at most and without secrets. What cannot be found out stands in it as an
// error.
func (i *Installer) Support(ctx context.Context, w io.Writer) error {
	z := gzip.NewWriter(w)
	archive := tar.NewWriter(z)
	for _, p := range i.supportParts() {
		text, err := p.within(ctx)
		if err != nil {
			text = append(text, fmt.Sprintf("\n%s could not be found out, or not all of it: %v\n", p.name, err)...)
		}
		text = scrub(text)
		if len(text) > p.most {
			text = append([]byte("… the beginning is left out\n"), text[len(text)-p.most:]...)
		}
		head := &tar.Header{Name: "teleport-update-support/" + p.name, Mode: 0o600, Size: int64(len(text)), ModTime: i.Timestamp(), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), z.Close())
}

// part is one file of the bundle.
type part struct {
	name string
	most int // bytes
	make func(context.Context) ([]byte, error)
}

// within makes the part, or gives up: a file server that does not answer holds up
// whoever asks it.
func (p part) within(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, partPatience)
	defer cancel()
	var text []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = p.make(ctx)
	}()
	select {
	case <-done:
		return text, err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %s", partPatience)
	}
}

func (i *Installer) supportParts() []part {
	units := []string{i.Paths.AgentUnit(), "teleport-update.service", "teleport-update.timer", "teleport-update-recover.service"}
	systemdsJournal := []string{"journalctl", "--no-pager", "-o", "short-iso", "-n", "5000", "-t", "systemd"}
	for _, u := range units {
		systemdsJournal = append(systemdsJournal, "-u", u)
	}
	shows := []string{"show", "--no-pager", "-p", "Id,LoadState,ActiveState,SubState,Result,UnitFileState,FragmentPath,DropInPaths,ExecMainStatus,NRestarts,MainPID,NeedDaemonReload"}
	return []part{
		{"status.json", maxPart, func(ctx context.Context) ([]byte, error) {
			r, err := i.Status(ctx, StatusOptions{})
			if err != nil {
				return nil, err
			}
			return json.MarshalIndent(r, "", "  ")
		}},
		{"verify.txt", maxPart, func(ctx context.Context) ([]byte, error) {
			findings, err := i.Verify(ctx)
			var b bytes.Buffer
			view.WriteFindings(&b, findings)
			return b.Bytes(), err
		}},
		{"history.json", maxPart, func(context.Context) ([]byte, error) {
			h, err := i.History()
			text, err2 := json.MarshalIndent(h, "", "  ")
			return text, errors.Join(err, err2)
		}},
		{"versions.txt", maxPart, func(ctx context.Context) ([]byte, error) {
			text := fmt.Sprintf("teleport-update %s, %s %s/%s\n", i.BuildVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			system, _ := regular.Read("/etc/os-release", 64<<10, 0)
			more, err := output(ctx, "uname", "-srvm")
			systemd, err2 := output(ctx, "systemctl", "--version")
			return append([]byte(text), bytes.Join([][]byte{more, systemd, system}, nil)...), errors.Join(err, err2)
		}},
		command("journal-updater.txt", maxJournal, "journalctl", "--no-pager", "-o", "short-iso", "-n", "10000", "-t", "teleport-update"),
		command("journal-systemd.txt", maxJournal, systemdsJournal...),
		command("units.txt", maxPart, append([]string{"systemctl", "cat", "--no-pager"}, units...)...),
		command("unit-states.txt", maxPart, append(append([]string{"systemctl"}, shows...), units...)...),
		command("timers.txt", maxPart, "systemctl", "list-timers", "--all", "--no-pager", "teleport-update.timer"),
		command("mounts.txt", maxPart, "findmnt", "--list", "-o", "TARGET,SOURCE,FSTYPE,VFS-OPTIONS"),
		{"space.txt", maxPart, func(context.Context) ([]byte, error) { return i.describeSpace() }},
		{"files.txt", maxPart, func(ctx context.Context) ([]byte, error) { return i.listFiles(ctx) }},
	}
}

func command(name string, most int, argv ...string) part {
	return part{name, most, func(ctx context.Context) ([]byte, error) { return output(ctx, argv[0], argv[1:]...) }}
}

// output runs a program and keeps the end of what it prints.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	var out tail
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	if err := cmd.Run(); err != nil {
		return out.data, fmt.Errorf("%s: %w", name, err)
	}
	return out.data, nil
}

// tail keeps the last bytes that are written to it.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	if t.data = append(t.data, p...); len(t.data) > 2*maxJournal {
		t.data = append(t.data[:0:0], t.data[len(t.data)-maxJournal:]...)
	}
	return len(p), nil
}

func (i *Installer) describeSpace() ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	for _, path := range []string{i.Paths.DataDir, i.Paths.Versions(), i.Paths.Programs(), i.Paths.LinkDir, i.Paths.UnitDir, os.TempDir()} {
		free, err := space.At(path)
		errs = append(errs, err)
		if err == nil {
			fmt.Fprintf(&b, "%-40s %s free\n", path, space.Format(free.Bytes))
		}
	}
	return b.Bytes(), errors.Join(errs...)
}

// listFiles names what is in the updater's folders, with modes and sizes, and the sizes
// of the trees: no file is opened.
func (i *Installer) listFiles(ctx context.Context) ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	roots := []string{i.Paths.Versions(), i.Paths.Programs(), i.Paths.LinkDir, i.Paths.UnitDir, filepath.Dir(i.Paths.Updater())}
	for _, root := range slices.Compact(roots) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			info, err := d.Info()
			if err != nil {
				return nil // gone meanwhile
			}
			to, _ := os.Readlink(path)
			fmt.Fprintf(&b, "%v %10d %s %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), path, to)
			return nil
		})
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return b.Bytes(), errors.Join(errs...)
}

const (
	// environmentLine is a line of a unit with those that go on with it.
	environmentLine = `(?m)^(\s*(?:Pass|Unset)?Environment\s*=)(?:.*\\\n)*.*$`
	// secretWord is a flag or a setting whose value nobody else should know.
	secretWord = `(?i)([\w.-]*(?:token|password|passwd|secret|credential|private[_-]?key|auth(?:orization)?)[\w.-]*["']?\s*[=:]\s*|--[\w-]*(?:token|password|secret)\s+)(?:"[^"]*"|'[^']*'|(?:bearer |basic )?[^\s,;"']+)`
)

// scrub takes out what may be a secret, whoever wrote it.
func scrub(text []byte) []byte {
	// They are compiled where they are needed: each run of the timer would do it.
	text = regexp.MustCompile(environmentLine).ReplaceAll(text, []byte("$1 (left out)"))
	text = regexp.MustCompile(secretWord).ReplaceAll(text, []byte("${1}(left out)"))
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(webclient.Redact(line))
	}
	return []byte(b.String())
}
