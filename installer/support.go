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
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/installer/host"
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
	AgentJournal bool // the agent's own lines, not cleaned
}

// Support writes all that a helper wants to see as one tar.gz, of five megabytes at most and without secrets: it cleans what the updater
// and systemd say, and keeps only known settings of other people's files. If a part cannot be found out, it holds the error.
func (i *Installer) Support(ctx context.Context, w io.Writer, o SupportOptions) error {
	z := gzip.NewWriter(w)
	archive := tar.NewWriter(z)
	c := newCleaner(nil)
	c.secrets = knownSecrets(i.Machine.Host, c)
	parts := i.supportParts(c)
	if o.AgentJournal {
		parts = append(parts, agentJournal(i.Machine.Host.Paths))
	}
	for _, p := range parts {
		text, err := p.within(ctx)
		if p.clean != nil && (err == nil || len(text) > 0) {
			var unclear error
			text, unclear = p.clean(text)
			err = errors.Join(err, unclear)
		}
		if err != nil {
			text = fmt.Appendf(text, "%s could not be found out, or not all of it: %s\n", p.name, c.line(console.Line(err.Error())))
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

// knownSecrets returns the secrets of this host that the updater can find. It reads the configuration that the agent's unit names, and the
// usual one, which may be of another time.
func knownSecrets(h *host.Host, c *cleaner) (secrets []string) {
	files := []string{h.Paths.Report(), h.Paths.AgentConfig}
	if config, err := host.ConfigurationOn(h).Path(); err == nil {
		files = append(files, config)
	}
	for _, path := range files {
		data, err := regular.Read(path, maxPart, 0)
		var document any
		if err != nil || yaml.Unmarshal(data, &document) != nil {
			continue
		}
		secrets = append(secrets, c.secretsIn("", document)...)
	}
	return secrets
}

// part is one file of the bundle.
type part struct {
	name  string
	most  int // bytes
	make  func(context.Context) ([]byte, error)
	clean func([]byte) ([]byte, error) // nil: the part stays as it is
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

// shown are the properties of units that are asked for.
const shown = "Id,LoadState,ActiveState,SubState,Result,UnitFileState,FragmentPath,DropInPaths,ExecMainStatus,NRestarts," +
	"MainPID,NeedDaemonReload"

func (i *Installer) supportParts(c *cleaner) []part {
	own := i.Machine.Host.OwnUnits()
	units := []string{i.Machine.Host.Paths.AgentUnit(), own.Service(), own.Timer(), own.Recovery()}
	// Anybody may write lines with another program's name: only lines of root's processes and of systemd itself count.
	updatersJournal := []string{"journalctl", "--no-pager", "-o", "short-iso", "-n", "10000", "-t", "teleport-update", "_UID=0"}
	systemdsJournal := []string{"journalctl", "--no-pager", "-o", "short-iso", "-n", "5000", "-t", "systemd", "_PID=1"}
	for _, u := range units {
		systemdsJournal = append(systemdsJournal, "-u", u)
	}
	lines := func(text []byte) ([]byte, error) { return c.text(text), nil }
	states := func(text []byte) ([]byte, error) { return c.cleanStates(text, shown), nil }
	asUnits := func(text []byte) ([]byte, error) { return c.cleanUnits(text), nil }
	return []part{
		{"status.json", maxPart, func(ctx context.Context) ([]byte, error) {
			r, err := i.Status(ctx, StatusOptions{})
			if err != nil {
				return nil, err
			}
			return json.Marshal(r)
		}, c.json},
		{"verify.txt", maxPart, func(ctx context.Context) ([]byte, error) {
			findings, err := i.Verify(ctx)
			var b bytes.Buffer
			view.WriteFindings(&b, findings)
			return b.Bytes(), err
		}, lines},
		{"history.json", maxPart, func(context.Context) ([]byte, error) {
			h, err := i.History()
			text, err2 := json.Marshal(h)
			return text, errors.Join(err, err2)
		}, c.json},
		// The last answer of find, and its time: status asks now, and may not reach find.
		{"find.json", maxPart, func(context.Context) ([]byte, error) {
			text, err := regular.Read(i.Machine.Host.Paths.LastAnswer(), maxPart, regular.NoLink)
			if errors.Is(err, fs.ErrNotExist) {
				return []byte(`"find was never asked"`), nil
			}
			return text, err
		}, c.json},
		{"versions.txt", maxPart, func(ctx context.Context) ([]byte, error) {
			text := fmt.Sprintf("teleport-update %s, %s %s/%s\n", i.BuildVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			more, err := output(ctx, "uname", "-srvm")
			systemd, err2 := output(ctx, "systemctl", "--version")
			return append([]byte(text), bytes.Join([][]byte{more, systemd}, nil)...), errors.Join(err, err2)
		}, func(text []byte) ([]byte, error) {
			system, err := regular.Read("/etc/os-release", 64<<10, 0)
			return append(c.text(text), c.cleanRelease(system)...), err
		}},
		{"journal-updater.txt", maxJournal, saysOf(updatersJournal...), lines},
		{"journal-systemd.txt", maxJournal, saysOf(systemdsJournal...), lines},
		{"units.txt", maxPart, saysOf(append([]string{"systemctl", "cat", "--no-pager"}, units...)...), asUnits},
		{"unit-states.txt", maxPart, saysOf(append([]string{"systemctl", "show", "--no-pager", "-p", shown}, units...)...), states},
		{"timers.txt", maxPart, saysOf("systemctl", "list-timers", "--all", "--no-pager", own.Timer()), lines},
		{"mounts.txt", maxPart, saysOf("findmnt", "--json", "--list", "-o", "TARGET,SOURCE,FSTYPE,VFS-OPTIONS"), c.cleanMounts},
		{"space.txt", maxPart, func(context.Context) ([]byte, error) { return describeSpace(i.Machine.Host.Paths) }, lines},
		{"files.txt", maxPart, func(ctx context.Context) ([]byte, error) { return listFiles(ctx, i.Machine.Host.Paths) }, lines},
	}
}

// agentJournal returns the part with the agent's own lines, for a person who has asked for it.
func agentJournal(p state.Paths) part {
	const head = "NOT CLEANED: these lines are the agent's own, as it wrote them. Read them before you send them to anybody.\n\n"
	says := saysOf("journalctl", "--no-pager", "-o", "short-iso", "-n", "5000", "-u", p.AgentUnit())
	return part{name: "agent-journal-not-cleaned.txt", most: 2 * maxJournal, make: func(ctx context.Context) ([]byte, error) {
		text, err := says(ctx)
		if len(text) > maxJournal {
			text = text[len(text)-maxJournal:]
		}
		return append([]byte(head), text...), err
	}}
}

func saysOf(argv ...string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) { return output(ctx, argv[0], argv[1:]...) }
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

func describeSpace(p state.Paths) ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	for _, path := range []string{p.DataDir, p.Versions(), p.Programs(), p.LinkDir, p.UnitDir, os.TempDir()} {
		free, err := space.At(path)
		errs = append(errs, err)
		if err == nil {
			fmt.Fprintf(&b, "%-40s %s free\n", path, space.Format(free.Bytes))
		}
	}
	return b.Bytes(), errors.Join(errs...)
}

// listFiles lists the files in the updater's folders, with modes and sizes, and the sizes of the trees. It opens no file.
func listFiles(ctx context.Context, p state.Paths) ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	roots := []string{p.Versions(), p.Programs(), p.LinkDir, p.UnitDir, filepath.Dir(p.Updater())}
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
