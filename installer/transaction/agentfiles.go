package transaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/layout"
)

// agentEnvironment is the file that units of the agent read their environment from. Like the
// configuration it belongs to the agent, no matter who put it there.
const agentEnvironment = "/etc/default/teleport"

// mostLinks is how many links the kernel follows.
const mostLinks = 40

// saveAgentFiles saves the agent's configuration, its environment and the drop-ins that are links: each link on the way to the
// file, and the file itself. dpkg's purge removes the file behind a configuration that is a link, and rpm renames the link.
func (o takingOver) saveAgentFiles(ctx context.Context) (kept []state.KeptFile, err error) {
	sight, err := o.t.agent.Look(ctx)
	if err != nil {
		return nil, err
	}
	paths := append([]string{o.t.m.Host.Paths.AgentConfig, agentEnvironment}, administratorsLinks(sight.Unit.DropIns)...)
	for n, path := range paths {
		links, file, err := linksOnTheWay(path)
		if err != nil {
			return nil, fmt.Errorf("save %s: %w", path, err)
		}
		kept = append(kept, links...)
		info, err := os.Lstat(file)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return nil, err
		}
		saved := filepath.Join(o.t.m.Host.Paths.Original(), fmt.Sprintf("kept-%d-%s", n, filepath.Base(path)))
		if err := durable.MkdirAll(o.t.m.Host.Paths.Original(), 0o700); err != nil {
			return nil, err
		}
		if err := durable.CloneFile(file, saved); err != nil {
			return nil, err
		}
		kept = append(kept, state.KeptFile{Path: file, Saved: saved})
	}
	return kept, nil
}

// administratorsLinks returns the drop-ins that a link leads to. Drop-ins in a folder of packages go with their package, and are left out.
func administratorsLinks(dropIns []string) (links []string) {
	for _, path := range dropIns {
		real, err := filepath.EvalSymlinks(path)
		ofPackage := slices.Contains(layout.PackageUnitDirs, filepath.Dir(filepath.Dir(path)))
		if (err != nil || real != path) && !ofPackage {
			links = append(links, path)
		}
	}
	return links
}

// linksOnTheWay returns the links that the kernel follows to the file at path, in that order, and where the file is. A file or a
// folder that does not exist is no error.
func linksOnTheWay(path string) (links []state.KeptFile, file string, err error) {
	at, rest := "/", strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist):
			at = next
			continue
		case err != nil:
			return nil, "", err
		case len(links) == mostLinks:
			return nil, "", syscall.ELOOP
		}
		links = append(links, state.KeptFile{Path: next, Target: target})
		rest = append(strings.Split(target, "/"), rest...)
		if filepath.IsAbs(target) {
			at = "/"
		}
	}
	return links, at, nil
}

// putBackKept puts back the agent's own files that the removal of a package took.
func (o takingOver) putBackKept() error {
	for _, k := range o.t.j.Packages.Kept {
		if host.Exists(k.Path) {
			continue
		}
		if err := putBack(k); err != nil {
			return fmt.Errorf("put back what the removal of a package took: %w", err)
		}
	}
	return nil
}

func putBack(k state.KeptFile) error {
	dir := filepath.Dir(k.Path)
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if k.Saved != "" {
		return durable.CloneFile(k.Saved, k.Path)
	}
	if err := durable.RelinkNoSync(k.Target, k.Path); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// forgetKept removes the copies; they may hold secrets.
func (o takingOver) forgetKept() error {
	for _, k := range o.t.j.Packages.Kept {
		if k.Saved == "" {
			continue
		}
		if err := durable.Remove(k.Saved); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
