package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/regular"
)

// askLimit bounds a query of the host's directory of users.
const askLimit = 10 * time.Second

// IsUser reports whether systemd can start something as a user, or whether nobody can find that
// out. Users that are not in /etc/passwd may be in a directory, which a program without the C
// library cannot ask itself.
func IsUser(ctx context.Context, name string) bool {
	_, err := user.Lookup(name)
	return isAccount(ctx, "passwd", name, err)
}

// IsGroup is IsUser for a group.
func IsGroup(ctx context.Context, name string) bool {
	_, err := user.LookupGroup(name)
	return isAccount(ctx, "group", name, err)
}

// isAccount asks the host's databases for a name that is not in a file.
func isAccount(ctx context.Context, database, name string, notInFile error) bool {
	if _, err := strconv.Atoi(name); name == "" || err == nil || notInFile == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "getent", database, name)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	ended, ok := errors.AsType[*exec.ExitError](cmd.Run())
	return !ok || ended.ExitCode() != getentUnknown
}

// getentUnknown is the exit code of getent(1) for an unknown name.
const getentUnknown = 2

// onlineCPUs is the file in which the kernel lists the CPUs that are online, as in "0-3,6".
const onlineCPUs = "/sys/devices/system/cpu/online"

// parseCPUs returns the CPUs of CPUAffinity=, which systemd reports as a mask: bit n of byte m is CPU 8m+n. CPUs of NUMA nodes are
// left out.
func parseCPUs(p properties) (all []int) {
	if property[bool](p, "CPUAffinityFromNUMA") {
		return nil
	}
	for m, bits := range property[[]byte](p, "CPUAffinity") {
		for n := range 8 {
			if bits>>n&1 == 1 {
				all = append(all, 8*m+n)
			}
		}
	}
	return all
}

// lacksCPUs returns the setting if none of its CPUs is online; otherwise "". One CPU is enough for the kernel. Without one,
// systemd starts no process (215/CPUAFFINITY).
func lacksCPUs(cpus []int) string {
	if len(cpus) == 0 {
		return ""
	}
	content, err := regular.Read(onlineCPUs, 64<<10, 0)
	if err != nil {
		return ""
	}
	online, err := cpuList(string(content))
	if err != nil || slices.ContainsFunc(cpus, func(cpu int) bool { return slices.Contains(online, cpu) }) {
		return ""
	}
	return "CPUAffinity=" + strings.Trim(fmt.Sprint(cpus), "[]")
}

// mostCPUs bounds a list of CPUs; the kernel has at most 8192.
const mostCPUs = 1 << 16

// cpuList reads a list of CPUs as the kernel writes it: numbers and ranges, with commas between them.
func cpuList(text string) (all []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				return nil, err
			}
		}
		for cpu := first; cpu <= min(last, mostCPUs); cpu++ {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// apparmor holds the files in which the kernel reports AppArmor's state.
type apparmor struct {
	enabled string // "Y" in it: AppArmor is in force
	loaded  string // a profile for each line, as in "/usr/bin/man (enforce)"; root alone can read it
}

var kernelsAppArmor = apparmor{"/sys/module/apparmor/parameters/enabled", "/sys/kernel/security/apparmor/profiles"}

// mostProfiles bounds the list of profiles, in bytes; a desktop has some 10 kB.
const mostProfiles = 8 << 20

// parseProfile returns the profile of AppArmorProfile= if it has to be loaded; otherwise "".
func parseProfile(p properties) string {
	fields := property[[]any](p, "AppArmorProfile")
	if len(fields) != 2 || fields[0] != false { // with "-" a start does without it
		return ""
	}
	return text(fields, 1)
}

// lacks returns the setting of a profile that is not loaded; empty if it is loaded, or if nobody knows. If AppArmor is in force,
// systemd starts no process without the profile (231/APPARMOR).
func (a apparmor) lacks(profile string) string {
	if profile == "" || profile == "unconfined" {
		return ""
	}
	on, err := regular.Read(a.enabled, 16, 0)
	if err != nil || !strings.HasPrefix(string(on), "Y") {
		return ""
	}
	loaded, err := regular.Read(a.loaded, mostProfiles, 0)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(loaded)) {
		name, _, _ := strings.Cut(line, " (")
		if name == profile {
			return ""
		}
	}
	return "AppArmorProfile=" + profile
}

// ownFolder is a folder that systemd makes for the unit.
type ownFolder struct {
	path, setting string
	lenient       bool // a file may be there (ConfigurationDirectory=): only a file above it keeps systemd from starting the unit
}

// parseOwnFolders returns the folders that have to exist, or be made, before systemd executes a process of the unit.
func parseOwnFolders(p properties) (all []ownFolder) {
	for name, above := range ownFolders {
		for _, folder := range property[[]string](p, name) {
			all = append(all, ownFolder{filepath.Join(above, folder), name + "=" + folder, false})
		}
	}
	for _, folder := range property[[]string](p, "ConfigurationDirectory") {
		all = append(all, ownFolder{filepath.Join("/etc", folder), "ConfigurationDirectory=" + folder, true})
	}
	return all
}

// blockedFolder returns the setting of a folder that systemd cannot make because it, or a path above it, is a file
// (233/RUNTIME_DIRECTORY, 238 to 241). It is empty if none shows. A file that a mount will hide is left out: systemd mounts
// the file system first.
func blockedFolder(folders []ownFolder, isToBeMounted func(path string) bool) string {
	if len(folders) == 0 {
		return ""
	}
	setting, _ := within(func() (string, error) {
		for _, f := range folders {
			info, err := os.Stat(f.path)
			isFile := err == nil && !info.IsDir() && !f.lenient
			if (isFile || errors.Is(err, unix.ENOTDIR)) && !isToBeMounted(f.path) {
				return f.setting, nil
			}
		}
		return "", nil
	})
	return setting
}

// standardInput is the setting whose file has to exist. For the other two settings systemd makes the file, in a folder that has to exist.
const standardInput = "StandardInput"

var (
	streamNames = []string{standardInput, "StandardOutput", "StandardError"}
	streamKinds = []string{"file", "append", "truncate"}
)

// streams are the settings by which a process reads from a file, or writes to one. Over D-Bus, systemd reports only the kind of
// a stream ("append"), not the path, so the unit's files are read for it.
type streams struct {
	kinds map[string]string // by the name of the setting; without streams of other kinds, as "journal"
	unit  string
	files []string // of the unit, in the order in which systemd reads them
}

func parseStreams(p properties) (s streams) {
	for _, name := range streamNames {
		kind := property[string](p, name)
		if !slices.Contains(streamKinds, kind) {
			continue
		}
		if s.kinds == nil {
			s.unit, s.kinds = property[string](p, "Id"), make(map[string]string)
			s.files = append([]string{property[string](p, "FragmentPath")}, property[[]string](p, "DropInPaths")...)
		}
		s.kinds[name] = kind
	}
	return s
}

// paths returns the paths of the streams, by the names of the settings. A path is left out if systemd has loaded the setting with
// another kind than the files have, or if it has an unknown specifier.
func (s streams) paths() map[string]string {
	last := make(map[string]string)
	for _, file := range s.files {
		content, err := readServiceFile(file)
		if err != nil {
			continue
		}
		for name, value := range serviceSettings(string(content)) {
			if _, is := s.kinds[name]; is && value.text != "" {
				last[name] = value.text
			}
		}
	}
	paths := make(map[string]string)
	for name, value := range last {
		path, same := strings.CutPrefix(value, s.kinds[name]+":")
		path = specifiersOf(s.unit).Replace(path)
		if same && filepath.IsAbs(path) && !strings.Contains(path, "%") {
			paths[name] = filepath.Clean(path)
		}
	}
	return paths
}

// closedStream returns the setting of a stream that systemd cannot open (208/STDIN, 209/STDOUT, 222/STDERR); empty if none shows.
// Paths that the unit makes or mounts for itself, or that other units bring, are left out.
func (s Startup) closedStream() string {
	if len(s.streams.kinds) == 0 {
		return ""
	}
	setting, _ := within(func() (string, error) {
		paths := s.streams.paths()
		for _, name := range streamNames {
			path := paths[name]
			made := slices.ContainsFunc(s.made, func(m string) bool { return related(m, path) })
			if path == "" || made || s.brings(path) {
				continue
			}
			isWritten := name != standardInput || path == paths["StandardOutput"]
			if cannotOpen(path, isWritten) {
				return name + "=" + s.streams.kinds[name] + ":" + path, nil
			}
		}
		return "", nil
	})
	return setting
}

// cannotOpen reports whether a file is missing or, if it is written, cannot be made.
func cannotOpen(path string, isWritten bool) bool {
	info, err := os.Stat(path)
	if err == nil {
		return isWritten && info.IsDir()
	}
	if isWritten && errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(path))
		return errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir()
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
