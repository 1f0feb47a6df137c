package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"

	"teleport-update/internal/procfs"
	"teleport-update/internal/regular"
)

// View holds the settings that hide or protect files from a unit's processes, in a mount namespace
// of their own. A running process keeps the view of its start: a change shows at the next start
// only.
type View struct {
	Root  string // RootDirectory=, RootImage=: only files that are bound are the host's
	Veils []Veil
}

// Veil is one setting over a path and all below it; a deeper one overrides those above it.
type Veil struct {
	Path    string
	Setting string // as a unit file has it
	Of      Access
	Lifted  bool // it allows again what one above it denies: BindPaths=, ExecPaths=, ReadWritePaths=
}

// Access is what a process may want to do with a file.
type Access int

// The kinds of access.
const (
	Seeing Access = iota
	Executing
	Writing
)

// overPaths are the settings with a list of paths.
var overPaths = []struct {
	name   string
	of     Access
	lifted bool
}{
	{"InaccessiblePaths", Seeing, false},
	{"NoExecPaths", Executing, false},
	{"ExecPaths", Executing, true},
	{"ReadOnlyPaths", Writing, false},
	{"ReadWritePaths", Writing, true},
}

// homes are the folders of ProtectHome=.
var homes = []string{"/home", "/root", "/run/user"}

// protections are the settings with one word that stands for paths.
var protections = []struct {
	name, how string
	of        Access
	paths     []string
}{
	{"ProtectSystem", "yes", Writing, []string{"/usr", "/boot", "/efi"}},
	{"ProtectSystem", "full", Writing, []string{"/usr", "/boot", "/efi", "/etc"}},
	{"ProtectSystem", "strict", Writing, []string{"/"}},
	{"ProtectHome", "yes", Seeing, homes},
	{"ProtectHome", "tmpfs", Seeing, homes},
	{"ProtectHome", "read-only", Writing, homes},
}

func parseView(p properties) View {
	v := View{Root: rootOf(p)}
	v.addProtections(p)
	for _, kind := range overPaths {
		for _, path := range property[[]string](p, kind.name) {
			v.add(path, kind.name+"="+path, kind.of, kind.lifted)
		}
	}
	for name, above := range ownFolders {
		for _, folder := range property[[]string](p, name) {
			v.add(filepath.Join(above, folder), name+"="+folder, Seeing, true)
			v.add(filepath.Join(above, folder), name+"="+folder, Writing, true)
		}
	}
	v.addMounts(p)
	return v
}

func (v *View) add(path, setting string, of Access, lifted bool) {
	v.Veils = append(v.Veils, Veil{filepath.Clean(strings.TrimLeft(path, "-+")), setting, of, lifted})
}

// addProtections adds the veils of the settings with one word.
func (v *View) addProtections(p properties) {
	for _, kind := range protections {
		if property[string](p, kind.name) != kind.how {
			continue
		}
		for _, path := range kind.paths {
			v.add(path, kind.name+"="+kind.how, kind.of, false)
		}
		if kind.how == "strict" { // ProtectHome= or the kernel protects these (systemd's namespace.c)
			for _, path := range slices.Concat(homes, []string{"/dev", "/sys"}) {
				v.add(path, "", Writing, true)
			}
		}
	}
	if property[bool](p, "PrivateTmp") {
		for _, path := range []string{"/tmp", "/var/tmp"} {
			v.add(path, "PrivateTmp=yes", Writing, true)
		}
	}
}

// addMounts adds the veils of the unit's own file systems, and the paths that they show in their place.
func (v *View) addMounts(p properties) {
	for _, fields := range property[[][]any](p, "TemporaryFileSystem") {
		if path := text(fields, 0); path != "" {
			v.add(path, "TemporaryFileSystem="+path, Seeing, false)
		}
	}
	for _, name := range []string{"BindPaths", "BindReadOnlyPaths"} {
		for _, fields := range property[[][]any](p, name) {
			if from, to := text(fields, 0), text(fields, 1); from != "" && to != "" {
				v.add(to, name+"="+from+":"+to, Seeing, filepath.Clean(from) == filepath.Clean(to))
				v.add(to, name+"="+from+":"+to, Writing, name == "BindPaths")
			}
		}
	}
}

func rootOf(p properties) string {
	for _, name := range []string{"RootDirectory", "RootImage"} {
		if root := property[string](p, name); root != "" && root != "/" {
			return name + "=" + root
		}
	}
	return ""
}

// Denies returns the setting that denies a unit's processes an access to a file of the host; empty
// if none does. A file that cannot be seen cannot be executed or written, either. The path has no
// links in it: mounts are over the paths that links lead to.
func (v View) Denies(path string, to Access) string {
	if setting := v.over(path, Seeing, v.Root); setting != "" || to == Seeing {
		return setting
	}
	return v.over(path, to, "")
}

// over returns the setting of the deepest veil over a path, or the given setting if no veil covers it.
func (v View) over(path string, of Access, setting string) string {
	depth := -1
	paths := v.withoutLinks(of)
	for _, veil := range v.Veils {
		real := paths[veil.Path]
		covers := real == "/" || path == real || strings.HasPrefix(path, real+"/")
		if veil.Of != of || !covers || len(real) < depth {
			continue
		}
		setting, depth = veil.Setting, len(real)
		if veil.Lifted {
			setting = ""
		}
	}
	return setting
}

// withoutLinks returns the paths of the veils over one kind of access, each without links. The path of a mount has none, so a
// file server behind it is not asked. If a file system does not answer for a path, or there is no such file, the path stays as
// written.
func (v View) withoutLinks(of Access) map[string]string {
	all := make(map[string]string)
	var asked []string
	for _, veil := range v.Veils {
		if _, known := all[veil.Path]; veil.Of == of && !known {
			all[veil.Path] = veil.Path
			asked = append(asked, veil.Path)
		}
	}
	if len(asked) == 0 {
		return all // without reading the mounts, which would slow each run of the timer
	}
	mounts, _ := procfs.Host().Mounts()
	asked = slices.DeleteFunc(asked, func(path string) bool { return slices.Contains(mounts, path) })
	answers := make(chan [2]string, len(asked))
	go func() { // one for all: each would hold a thread of its own
		for _, path := range asked {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				real = path
			}
			answers <- [2]string{path, real}
		}
	}()
	limit := time.After(lookLimit)
	for range asked {
		select {
		case answer := <-answers:
			all[answer[0]] = answer[1]
		case <-limit:
			return all
		}
	}
	return all
}

// lookLimit bounds the wait for a file system: one whose server is away never answers, and a look at a host must come to an
// end.
const lookLimit = 3 * time.Second

var errNoAnswer = errors.New("its file system does not answer")

// within looks at a file. The error is errNoAnswer if that takes longer than lookLimit; the look then goes on by itself, because
// nobody can stop it.
func within[T any](look func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := look()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-time.After(lookLimit):
		var none T
		return none, errNoAnswer
	}
}

// Packaged reports whether a package brought the updater's units, and with them the program that
// they run.
func (u Units) Packaged() bool {
	return u.some(func(p place) bool { return p.packaged != "" })
}

// InPackageDir returns the first of the updater's units that is in UnitDir and that Write would overwrite, if UnitDir is a
// folder of packages; otherwise "". If the updater did not write that unit, a package brought it.
func (u Units) InPackageDir() string {
	u = u.withDefaults()
	if !slices.ContainsFunc(u.PackageDirs, func(dir string) bool { return sameFile(dir, u.UnitDir) }) {
		return ""
	}
	files, err := u.Files()
	if err != nil {
		return "" // Write says so
	}
	for _, f := range files {
		path := filepath.Join(u.UnitDir, f.Name)
		if content, err := regular.Read(path, 64<<10, regular.NoLink); err == nil && OwnFile(path) && !bytes.Equal(content, f.Content) {
			return path
		}
	}
	return ""
}

// Present reports whether any unit of the updater exists, from a package or from Write.
func (u Units) Present() bool {
	return u.some(func(p place) bool { return p.packaged != "" || p.present != nil })
}

func (u Units) some(is func(place) bool) bool {
	places, err := u.places()
	return err == nil && slices.ContainsFunc(places, is)
}

// Disable removes the links that enable a unit, as "systemctl disable" does. A
// unit that is not enabled is fine.
func (c *Conn) Disable(ctx context.Context, unit string) error {
	_, err := do(ctx, c, func(ctx context.Context, l *link) ([]sdbus.DisableUnitFileChange, error) {
		return l.api.DisableUnitFilesContext(ctx, []string{unit}, false)
	})
	if err != nil && !isNoSuchUnit(err) {
		return fmt.Errorf("disable %s: %w", unit, err)
	}
	return c.DaemonReload(ctx)
}

// OwnFile reports whether a file is a unit that this program wrote.
func OwnFile(path string) bool {
	content, err := regular.Read(path, 64<<10, regular.NoLink)
	return err == nil && bytes.HasPrefix(content, []byte(mark+"\n"))
}

// OthersTimer reports whether systemd would start another updater by the name of our timer: the
// other updater's file is in the administrator's folder of units, which comes before ours.
func (u Units) OthersTimer() bool {
	path := filepath.Join(u.withDefaults().ConfigDir, u.Timer())
	content, err := regular.Read(path, 64<<10, regular.NoLink)
	return err == nil && !bytes.HasPrefix(content, []byte(mark+"\n"))
}
