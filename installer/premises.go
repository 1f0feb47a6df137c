package installer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/internal/layout"
	"teleport-update/internal/procfs"
)

// premise is one path that a run with nothing to do went by, as it was seen: what the run
// found holds for as long as the path is the same. A file that is written in its place has
// another ctime, one that is replaced another inode, and a mount over it another device.
type premise struct {
	Path string
	Care care
	Seen string // empty: nothing is there
}

// care is how closely a path is looked at.
type care string

const (
	wholly  care = "whole"   // all that lstat(2) says, but when it was read
	placed  care = "place"   // a folder on the way: which one it is, and who may write in it
	listed  care = "names"   // a folder that every run replaces a file in: as placed, and the names there
	behind  care = "behind"  // as wholly, of the file that the path leads to where it is a link
	ofBoot  care = "boot"    // no path: which boot this is
	ofHost  care = "name"    // no path: the host's name, which is reported
	process care = "process" // the path is a PID: when the process began, and what it executes
)

// holds reports whether the path is as it was.
func (p premise) holds() bool {
	seen, err := p.Care.see(p.Path)
	return err == nil && seen == p.Seen
}

func (c care) see(path string) (string, error) {
	switch c {
	case ofBoot:
		return procfs.BootID(), nil
	case ofHost:
		return os.Hostname()
	case process:
		return seeProcess(path)
	}
	var st unix.Stat_t
	look := unix.Lstat
	if c == behind {
		look = unix.Stat
	}
	if err := look(path, &st); errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return "", nil
	} else if err != nil {
		return "", &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	seen := make([]byte, 0, 96)
	for _, n := range []uint64{uint64(st.Dev), st.Ino, uint64(st.Mode), uint64(st.Uid), uint64(st.Gid)} {
		seen = append(strconv.AppendUint(seen, n, 36), ' ')
	}
	switch c {
	case wholly, behind:
		for _, n := range []int64{int64(st.Nlink), st.Size, st.Ctim.Nano(), st.Mtim.Nano()} {
			seen = append(strconv.AppendInt(seen, n, 36), ' ')
		}
	case listed:
		entries, err := os.ReadDir(path)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			seen = append(append(seen, '/'), e.Name()...)
		}
	}
	return string(seen), nil
}

func seeProcess(path string) (string, error) {
	pid, err := strconv.Atoi(path)
	if err != nil {
		return "", err
	}
	p := procfs.Host().Process(pid)
	if p == nil {
		return "", nil
	}
	return seenOf(*p), nil
}

func seenOf(p procfs.Process) string { return strconv.FormatUint(p.Start, 36) + " " + p.Exe }

// premises are the paths that a run with nothing to do goes by. What such a run looks at
// besides is in the table of TestEveryPathOfARunIsAPremise, with the reason why a
// look that is an hour old will do.
func (i *Installer) premises(c state.Config) ([]premise, error) {
	p := i.Paths
	agentDir, err := i.AgentDataDir()
	if err != nil {
		return nil, err
	}
	tree, ok, err := i.Active(c)
	if err != nil || !ok {
		return nil, errors.Join(err, errors.New("the active version is not whole"))
	}
	l := list{seen: map[string]bool{}}
	for _, dir := range []string{p.Versions(), p.Programs()} {
		l.add(listed, dir)
		for dir != "/" {
			dir = filepath.Dir(dir)
			l.add(placed, dir)
		}
	}
	l.add(behind, procfs.Self, p.AgentConfig)
	l.add(ofBoot, "boot")
	l.add(ofHost, "hostname")
	l.walk(tree.Dir)
	l.walk(tree.ProgramsDir())
	l.add(wholly, p.Config(), p.Journal(), p.History(), p.Report(), p.Ticks(), p.ClusterConfig(),
		filepath.Join(p.Versions(), "partial"), filepath.Join(agentDir, "host_uuid"), i.MachineID, c.Spec.CAFile)
	l.walk(p.Original())
	l.add(wholly, p.LinkDir)
	programs, _ := os.ReadDir(filepath.Join(tree.ProgramsDir(), "bin"))
	for _, e := range programs {
		l.add(wholly, filepath.Join(p.LinkDir, e.Name()))
	}
	if !c.Spec.NoClusterReport && p.AgentRunDir != "" {
		l.add(wholly, p.AgentRunDir, p.UpdateID())
	}
	units := i.OwnUnits()
	l.walk(filepath.Dir(p.Updater()))
	l.add(wholly, p.Unit(), "/run/systemd/system", layout.ConfigDir, layout.TeleportsUpdaterDir, filepath.Join(layout.ConfigDir, units.Timer()))
	l.add(wholly, units.Folders()...)
	for _, dir := range append([]string{p.UnitDir, layout.ConfigDir}, layout.PackageUnitDirs...) {
		l.walk(filepath.Join(dir, p.AgentUnit()+".d"))
	}
	return l.all, l.err
}

// list collects premises, each path once: the first care for it is the one that counts.
type list struct {
	all  []premise
	seen map[string]bool
	err  error
}

func (l *list) add(c care, paths ...string) {
	for _, path := range paths {
		if path == "" || l.seen[path] {
			continue
		}
		seen, err := c.see(path)
		l.seen[path], l.err = true, errors.Join(l.err, err)
		l.all = append(l.all, premise{path, c, seen})
	}
}

// walk adds a folder and all that is in it. A link is not followed.
func (l *list) walk(dir string) {
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			l.add(wholly, path)
			return nil
		}
		return err
	})
	l.err = errors.Join(l.err, err)
}

// ofThisRun are variables that systemd gives another value in each run of a timer's unit, and
// one that a run has put away by the time it leaves a record.
var ofThisRun = []string{"GOMAXPROCS=", "INVOCATION_ID=", "JOURNAL_STREAM=", "SYSTEMD_EXEC_PID=", "TRIGGER_TIMER_REALTIME_USEC=", "TRIGGER_TIMER_MONOTONIC_USEC="}

// given is a digest of what a run was told from outside: its arguments and its environment.
func given() string {
	var all strings.Builder
	for _, text := range append([]string{strings.Join(os.Args, "\x00"), ""}, syscall.Environ()...) {
		if !slices.ContainsFunc(ofThisRun, func(name string) bool { return strings.HasPrefix(text, name) }) {
			all.WriteString(text + "\x00")
		}
	}
	sum := sha256.Sum256([]byte(all.String()))
	return hex.EncodeToString(sum[:])
}
