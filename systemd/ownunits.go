package systemd

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"
	"unicode"
	"unicode/utf8"

	"teleport-update/internal/durable"
	"teleport-update/internal/layout"
)

// StartTimer starts the updater's timer, see Units.Timer, after systemd has read changed units. A
// timer that an administrator has masked or disabled stays so.
func (c *Conn) StartTimer(ctx context.Context, name string, changed bool) error {
	timer, err := c.Unit(ctx, name)
	if err != nil {
		return err
	}
	if changed || timer.NeedDaemonReload || timer.LoadState != "loaded" {
		if err := c.DaemonReload(ctx); err != nil {
			return err
		}
		// The file that systemd has just read may be a mask.
		if timer, err = c.Unit(ctx, name); err != nil {
			return err
		}
	}
	off := timer.LoadState == "masked" || timer.UnitFileState == "disabled"
	if off || timer.ActiveState == "active" && !changed {
		return nil
	}
	return c.Start(ctx, name)
}

// StopTimer is the opposite of StartTimer. A run of the updater that the timer has started goes
// on.
func (c *Conn) StopTimer(ctx context.Context, name string) error {
	timer, err := c.Unit(ctx, name)
	if err != nil || timer.LoadState != "loaded" {
		return err
	}
	if err := c.Stop(ctx, name); err != nil {
		return err
	}
	// The stamp of the timer's last run is only a trace: systemd before 243 cannot remove it.
	_, _ = do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
		return struct{}{}, l.calls.Object("org.freedesktop.systemd1", managerPath).
			CallWithContext(ctx, "org.freedesktop.systemd1.Manager.CleanUnit", 0, name, []string{"state"}).Store()
	})
	return nil
}

// Rescuer returns the program that the recovery at boot runs, from the unit file that systemd
// uses, even if the updater did not write it.
func (u Units) Rescuer() (program string, err error) {
	places, err := u.places()
	if err != nil {
		return "", err
	}
	n := slices.IndexFunc(places, func(p place) bool { return p.Name == u.Recovery() })
	p := places[n]
	for _, path := range []string{p.above, p.packaged} {
		if path == "" || path == p.own {
			continue
		}
		content, err := readUnit(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			program, err = startedBy(content)
		}
		if err != nil {
			return "", fmt.Errorf("see what %s runs: %w", path, err)
		}
		return program, nil
	}
	return u.Binary, nil
}

// startedBy returns the program that a unit starts. Only a person writes a path that needs quotes.
func startedBy(unit []byte) (program string, err error) {
	for line := range strings.Lines(string(unit)) {
		command, ok := strings.CutPrefix(line, "ExecStart=")
		if words := strings.Fields(command); ok && len(words) > 0 {
			program = strings.TrimLeft(words[0], "@-:+!")
		}
	}
	if !filepath.IsAbs(program) || strings.ContainsAny(program, `"'\\%`) {
		return "", fmt.Errorf("its command %q is not the plain path of a program", program)
	}
	return program, nil
}

// UpdaterInfo is the data with which the agent reports to its cluster how it is updated. It is the
// same for all versions.
type UpdaterInfo struct {
	InstallDir string // the folder above the agent's executable, without links
	ConfigFile string // the updater's file that the agent reads
	RunDir     string // below /run: a folder for the agent's user and root alone; empty: none
}

// UpdaterInfoFile is a drop-in of the agent's unit. Its name sorts before the usual names of
// people's drop-ins, so that theirs override it.
func (u Units) UpdaterInfoFile() string {
	u = u.withDefaults()
	return filepath.Join(u.UnitDir, u.Agent+".d", "10-teleport-update-report.conf")
}

func (r UpdaterInfo) content() []byte {
	var b bytes.Buffer
	b.WriteString(mark + "\n[Service]\n")
	fmt.Fprintf(&b, "Environment=%s\n", quote("TELEPORT_UPDATE_INSTALL_DIR="+r.InstallDir))
	fmt.Fprintf(&b, "Environment=%s\n", quote("TELEPORT_UPDATE_CONFIG_FILE="+r.ConfigFile))
	if r.RunDir == "" {
		return b.Bytes()
	}
	// systemd makes the folder as the agent's user at each start, and the id in it outlives a stop.
	fmt.Fprintf(&b, "RuntimeDirectory=%s\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n", strings.TrimPrefix(r.RunDir, "/run/"))
	return b.Bytes()
}

// WriteUpdaterInfo writes the drop-in, which the agent has from its next start on; systemd has to
// read it first. A file that is not the updater's own stays as it is. It reports whether it
// changed anything.
func (u Units) WriteUpdaterInfo(r UpdaterInfo) (changed bool, err error) {
	return writeDropIn(u.UpdaterInfoFile(), r.content())
}

func writeDropIn(path string, want []byte) (changed bool, err error) {
	present, foreign, err := readDropIn(path)
	switch {
	case err != nil:
		return false, err
	case foreign:
		return false, fmt.Errorf("%s is not teleport-update's own: move it away", path)
	case bytes.Equal(present, want):
		return false, nil
	default:
		if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return false, err
		}
		return true, durable.WriteFile(path, want, 0o644)
	}
}

// EraseUpdaterInfo removes the file of WriteUpdaterInfo.
func (u Units) EraseUpdaterInfo() (changed bool, err error) { return eraseDropIn(u.UpdaterInfoFile()) }

func eraseDropIn(path string) (changed bool, err error) {
	present, foreign, err := readDropIn(path)
	if err != nil || foreign {
		return false, err
	}
	dir := filepath.Dir(path)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if present != nil {
		err = durable.Remove(path)
	}
	// An administrator may have drop-ins of their own there.
	if err == nil && durable.UnlinkNoSync(dir) == nil {
		err = durable.SyncDir(filepath.Dir(dir))
	}
	return present != nil && err == nil, err
}

// readDropIn returns the content of the file, nil for a missing file.
func readDropIn(path string) (present []byte, foreign bool, err error) {
	present, err = readUnit(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return present, err == nil && !bytes.HasPrefix(present, []byte(mark+"\n")), err
}

//go:embed templates
var templateFiles embed.FS

// unitTemplates parses the templates at their first use: hardly a run of the timer writes a unit.
var unitTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"quote": quote,
		"plain": plain,
	}).ParseFS(templateFiles, "templates/*.tmpl"))
})

// mark is the first line of each of our unit files. A file without it belongs to somebody else and
// stays as it is.
const mark = "# Part of teleport-update. Change it with \"systemctl edit\", not here."

// A UnitFile is one of the updater's own units, or a drop-in of one.
type UnitFile struct {
	Name    string
	Content []byte
	// WantedBy is the target whose start starts the unit, empty if something else starts it.
	WantedBy string

	template string // its file in templates
	limits   []ownLimit
}

// Files returns the updater's units, as Install writes them and a package ships
// them.
func (u Units) Files() ([]UnitFile, error) {
	u = u.withDefaults()
	for _, path := range append(u.mounts(), u.Binary, u.ConfigDir) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return nil, fmt.Errorf("%q cannot be named in a unit: it has to be a clean absolute path in UTF-8", path)
		}
	}
	values := struct {
		Units
		Command, Config, Journal string
		Mounts                   []string // folders that a recovery needs
		Recover, RunDirectory    string   // a unit, and a folder in /run
		Limits                   []ownLimit
	}{u, u.command(), filepath.Join(u.DataDir, "versions", "updates.yaml"), filepath.Join(u.DataDir, "versions", "journal.json"), u.mounts(),
		u.Recovery(), u.runDirectory(), nil}
	files := append(u.named(), u.limitFiles()...)
	for i := range files {
		values.Limits = files[i].limits
		content := bytes.NewBufferString(mark + "\n")
		if err := unitTemplates().ExecuteTemplate(content, files[i].template, values); err != nil {
			return nil, fmt.Errorf("render %s: %w", files[i].Name, err)
		}
		files[i].Content = content.Bytes()
	}
	return files, nil
}

// mounts returns the folders in which a recovery works.
func (u Units) mounts() []string {
	dirs := []string{u.DataDir, u.LinkDir, u.UnitDir}
	switch {
	case u.Programs != "":
		dirs = append(dirs, u.Programs)
	case u.DataDir == layout.DataDir:
		dirs = append(dirs, layout.ProgramsDir)
	}
	return dirs
}

// command returns the updater's command, with flags for the folders that differ from the usual ones.
func (u Units) command() string {
	words := []string{quote(u.Binary)}
	for _, flag := range []struct{ name, value, usual string }{
		{"--data-dir", u.DataDir, layout.DataDir},
		{"--link-dir", u.LinkDir, layout.LinkDir},
		{"--unit-dir", u.UnitDir, layout.UnitDir},
		{"--programs-dir", u.Programs, ""},
	} {
		if flag.value != flag.usual {
			words = append(words, flag.name, quoteArgument(flag.value))
		}
	}
	return strings.Join(words, " ")
}

// quote makes a path one word of a setting that takes several (systemd.syntax(7),
// "Quoting"), without specifiers.
func quote(path string) string {
	path = plain(path)
	if !strings.ContainsAny(path, " \"'\\;") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

// quoteArgument does the same for an argument of a command, in which "$" begins a
// variable (systemd.service(5), "Command lines").
func quoteArgument(path string) string {
	return quote(strings.ReplaceAll(path, "$", "$$"))
}

// plain makes a path the value of a setting that takes one path and no quotes.
func plain(path string) string {
	return strings.ReplaceAll(path, "%", "%%")
}
