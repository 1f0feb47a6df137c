package systemd

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/internal/procfs"
)

// View is what the settings of a unit keep from its processes, in a mount namespace of their own. A
// process that runs keeps the view that it was started with: only the next start shows.
type View struct {
	Root  string // RootDirectory=, RootImage=: none of the host's files are there, but for what is bound
	Veils []Veil
}

// Veil is one setting over a path and all below it; a deeper one counts before those above it.
type Veil struct {
	Path    string
	Setting string // as a unit file has it
	Of      Access
	Lifted  bool // it gives back what one above it takes: BindPaths=, ExecPaths=, ReadWritePaths=
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

// homes are what ProtectHome= is about.
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

// ownFolders are the settings that name folders which systemd makes for the unit, and where.
var ownFolders = map[string]string{"StateDirectory": "/var/lib", "RuntimeDirectory": "/run", "CacheDirectory": "/var/cache",
	"LogsDirectory": "/var/log"}

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

// addProtections adds what the settings with one word veil.
func (v *View) addProtections(p properties) {
	for _, kind := range protections {
		if property[string](p, kind.name) != kind.how {
			continue
		}
		for _, path := range kind.paths {
			v.add(path, kind.name+"="+kind.how, kind.of, false)
		}
		if kind.how == "strict" { // those are ProtectHome='s, or the kernel's (systemd's namespace.c)
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

// addMounts adds what file systems of the unit's own veil, and what other paths show in their place.
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

// Denies returns the setting that keeps a unit's processes from an access to a file of the host's;
// empty if none does. What cannot be seen cannot be executed or written, either. The path has
// no links in it: mounts are over what it leads to.
func (v View) Denies(path string, to Access) string {
	if setting := v.over(path, Seeing, v.Root); setting != "" || to == Seeing {
		return setting
	}
	return v.over(path, to, "")
}

// over is the setting of the deepest veil over a path, and that above all where there is none.
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

// withoutLinks are the paths of the veils over one kind of access, each without links. The place of a mount has none, so a file
// server behind it is not asked; where one does not answer for what lies below, or there is no such file, the path counts
// as it stands.
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
		return all // nor are the mounts asked for, which each run of the timer would pay for
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
