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
	"runtime"
	"slices"
	"strings"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/console"
	"teleport-update/internal/regular"
	"teleport-update/internal/space"
)

const (
	// A part of the bundle has at most so many bytes; of a journal the end counts.
	maxPart    = 256 << 10
	maxJournal = 1 << 20
	// partPatience bounds each part: half of the host may be broken.
	partPatience = 20 * time.Second
)

// SupportOptions are what a person may add to the file for a ticket.
type SupportOptions struct {
	AgentJournal bool // the agent's own lines, as it wrote them
}

// Support writes what a helper wants to see as one tar.gz, of five megabytes at most and without secrets: values whose keys are not known
// are left out. A part that could not be made, or not all of it, says so.
func (i *Installer) Support(ctx context.Context, w io.Writer, o SupportOptions) error {
	z := gzip.NewWriter(w)
	archive := tar.NewWriter(z)
	parts := i.supportParts()
	if o.AgentJournal {
		parts = append(parts, agentJournal(i.Machine.Host.Paths))
	}
	for _, p := range parts {
		text, err := p.within(ctx)
		if err != nil { // the error may quote a file
			text = fmt.Appendf(text, "%s could not be found out, or not all of it\n", p.name)
		}
		if len(text) > p.most {
			text = append([]byte("… the beginning is left out\n"), text[len(text)-p.most:]...)
		}
		head := &tar.Header{Name: "teleport-update-support/" + p.name, Mode: 0o600, Size: int64(len(text)), ModTime: i.Machine.Timestamp(),
			Typeflag: tar.TypeReg}
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

// within makes the part, or gives up: a file server that does not answer holds up its callers.
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
	own := i.Machine.Host.OwnUnits()
	units := []string{i.Machine.Host.Paths.AgentUnit(), own.Service(), own.Timer(), own.Recovery()}
	// Anybody may write lines with another program's name: only lines of root's processes and of systemd itself count.
	updatersJournal := []string{"journalctl", "--no-pager", "-o", "json", "--output-fields=PRIORITY,MESSAGE", "-n", "10000",
		"-t", "teleport-update", "_UID=0"}
	systemdsJournal := []string{"journalctl", "--no-pager", "-o", "json", "--output-fields=" + strings.Join(knownFields, ","), "-n", "5000",
		"-t", "systemd", "_PID=1"}
	for _, u := range units {
		systemdsJournal = append(systemdsJournal, "-u", u)
	}
	unitStates := append([]string{"systemctl", "show", "--no-pager", "-p", strings.Join(knownProperties, ",")}, units...)
	return []part{
		{"status.json", maxPart, func(ctx context.Context) ([]byte, error) {
			r, err := i.Status(ctx, StatusOptions{})
			if err != nil {
				return nil, err
			}
			return knownJSON(r)
		}},
		{"verify.txt", maxPart, func(ctx context.Context) ([]byte, error) {
			findings, err := i.Verify(ctx)
			for n := range findings {
				if findings[n].Detail != "" {
					findings[n].Detail = leftOut
				}
			}
			var b bytes.Buffer
			view.WriteFindings(&b, findings)
			return b.Bytes(), err
		}},
		{"history.json", maxPart, func(context.Context) ([]byte, error) {
			h, err := i.History()
			text, err2 := knownJSON(h)
			return text, errors.Join(err, err2)
		}},
		// The last answer of find, and its time: status asks now, and may not reach find.
		{"find.json", maxPart, func(context.Context) ([]byte, error) {
			text, err := regular.Read(i.Machine.Host.Paths.LastAnswer(), maxPart, regular.NoLink)
			if errors.Is(err, fs.ErrNotExist) {
				return []byte(`"find was never asked"`), nil
			}
			if err != nil {
				return nil, err
			}
			var last state.LastAnswer
			if err := json.Unmarshal(text, &last); err != nil {
				return nil, err
			}
			return knownJSON(last)
		}},
		{"versions.txt", maxPart, func(ctx context.Context) ([]byte, error) {
			text := fmt.Sprintf("teleport-update %s, %s %s/%s\n", i.BuildVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			more, err := output(ctx, "uname", "-srvm")
			systemd, err2 := output(ctx, "systemctl", "--version")
			release, err3 := regular.Read("/etc/os-release", 64<<10, 0)
			all := [][]byte{[]byte(text), more, systemd, keepAssigned(release, knownRelease)}
			return bytes.Join(all, nil), errors.Join(err, err2, err3)
		}},
		{"journal-updater.txt", maxJournal, journalOf(updatersLine, updatersJournal...)},
		{"journal-systemd.txt", maxJournal, journalOf(systemdsLine, systemdsJournal...)},
		{"unit-states.txt", maxPart, func(ctx context.Context) ([]byte, error) {
			text, err := output(ctx, unitStates[0], unitStates[1:]...)
			return keepAssigned(text, knownProperties), err
		}},
		{"mounts.txt", maxPart, func(ctx context.Context) ([]byte, error) { return describeMounts(ctx, i.Machine.Host.Paths) }},
		{"space.txt", maxPart, func(context.Context) ([]byte, error) { return describeSpace(i.Machine.Host.Paths) }},
		{"files.txt", maxPart, func(ctx context.Context) ([]byte, error) { return listFiles(ctx, i.Machine.Host.Paths) }},
	}
}

func knownJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return keepKeys(text)
}

func journalOf(line func(fields map[string]string) string, argv ...string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		text, err := output(ctx, argv[0], argv[1:]...)
		return entries(text, line), err
	}
}

// agentJournal returns the part with the agent's own lines, for a person who has asked for it.
func agentJournal(p state.Paths) part {
	const head = "NOT CLEANED: these lines are the agent's own, as it wrote them. Read them before you send them to anybody.\n\n"
	return part{name: "agent-journal-not-cleaned.txt", most: 2 * maxJournal, make: func(ctx context.Context) ([]byte, error) {
		text, err := output(ctx, "journalctl", "--no-pager", "-o", "short-iso", "-n", "5000", "-u", p.AgentUnit())
		if len(text) > maxJournal {
			text = text[len(text)-maxJournal:]
		}
		return append([]byte(head), text...), err
	}}
}

// output runs a program and keeps the end of its output.
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

// places are the folders in which the updater and the agent have files.
func places(p state.Paths) []string {
	return slices.Compact([]string{p.DataDir, p.Versions(), p.Programs(), p.LinkDir, p.UnitDir, filepath.Dir(p.Updater())})
}

func describeSpace(p state.Paths) ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	for _, path := range append(places(p), os.TempDir()) {
		free, err := space.At(path)
		errs = append(errs, err)
		if err == nil {
			fmt.Fprintf(&b, "%-40s %s free\n", path, space.Format(free.Bytes))
		}
	}
	return b.Bytes(), errors.Join(errs...)
}

// describeMounts leaves the sources of mounts out: they may name a user and a password.
func describeMounts(ctx context.Context, p state.Paths) ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	for _, path := range places(p) {
		text, err := output(ctx, "findmnt", "--noheadings", "-o", "TARGET,FSTYPE,VFS-OPTIONS", "--target", path)
		errs = append(errs, err)
		fmt.Fprintf(&b, "%-40s %s\n", path, console.Line(strings.TrimSpace(string(text))))
	}
	return b.Bytes(), errors.Join(errs...)
}

// listFiles lists the files in the updater's folders, with modes and sizes, and the updater's own files elsewhere. It opens no file.
func listFiles(ctx context.Context, p state.Paths) ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	list := func(path string, info fs.FileInfo) {
		fmt.Fprintf(&b, "%v %10d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), path)
	}
	for _, root := range slices.Compact([]string{p.Versions(), p.Programs()}) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			if info, err := d.Info(); err == nil { // else it is gone meanwhile
				list(path, info)
			}
			return nil
		})
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	own := []string{p.Updater(), p.Unit(), p.AgentConfig}
	links, err := os.ReadDir(p.LinkDir)
	if !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, link := range links {
		path := filepath.Join(p.LinkDir, link.Name())
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, p.Programs()+"/") {
			own = append(own, path)
		}
	}
	for _, path := range own {
		info, err := os.Lstat(path)
		if err == nil {
			list(path, info)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return b.Bytes(), errors.Join(errs...)
}
