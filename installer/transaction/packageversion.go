package transaction

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
	"teleport-update/ospackage"
	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// packageEditions are the editions of the packages that carry an agent.
var packageEditions = map[string]version.Edition{
	"teleport": version.OSS, "teleport-ent": version.Enterprise, "teleport-fips": version.FIPS, "teleport-ent-fips": version.FIPS,
}

// keepPackageVersion makes the agent that a package brought the version to go back to, before the
// package is removed. It is a help, and no condition: a failure is only logged.
func (o takingOver) keepPackageVersion(ctx context.Context) *version.Release {
	if o.t.j.From != nil {
		return nil // a version of ours is the one to go back to
	}
	program := o.programBefore()
	for _, found := range o.t.j.Packages.Found {
		p := ospackage.Package(found)
		kept, err := o.keptFrom(p)
		if kept == nil && err == nil {
			kept, err = o.keepFrom(ctx, p, program)
		}
		o.t.m.warn(err, "the version that the package brought is not kept: there is no previous version to go back to", "package", p.String())
		if kept != nil {
			return kept
		}
	}
	return nil
}

func originOf(p ospackage.Package) string { return p.Kind + " " + p.String() }

// keptFrom returns what an earlier run kept that was cut off before it could note that.
func (o takingOver) keptFrom(p ospackage.Package) (*version.Release, error) {
	entries, err := o.t.m.Host.Store.List()
	for _, e := range entries {
		if e.Tree.Origin == originOf(p) {
			return &e.Tree.Release, nil
		}
	}
	return nil, err
}

// keepFrom keeps a package's agent, if that is the agent that ran: the database belongs to it.
func (o takingOver) keepFrom(ctx context.Context, p ospackage.Package, program string) (*version.Release, error) {
	files, err := p.Files(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(files, program) {
		o.t.m.Host.Log.Debug("the agent was not the package's", "package", p.String(), "program", program)
		return nil, nil
	}
	digests, err := p.Digests(ctx)
	if err != nil {
		return nil, err
	}
	a := versions.Adoption{Origin: originOf(p), Edition: packageEditions[p.Name], Complete: o.completePackageVersion,
		Extra: o.t.j.Database.Size}
	links := []string{program, filepath.Join(o.t.m.Host.Paths.LinkDir, host.AgentName), o.t.j.Agent.Program,
		filepath.Join(o.t.m.Host.Paths.LinkDir, host.AgentName)}
	for _, path := range slices.Sorted(maps.Keys(digests)) {
		name, from := filepath.Base(path), o.copyBefore(path)
		info, err := os.Stat(from)
		switch {
		case filepath.Dir(path) != filepath.Dir(program):
			continue
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			continue
		}
		links = append(links, path, filepath.Join(o.t.m.Host.Paths.LinkDir, name))
		a.Files = append(a.Files, versions.AdoptedFile{Name: filepath.Join(archive.Programs, name), Size: info.Size(),
			Write: func(w io.Writer) error { return ospackage.CopyWhole(w, from, digests[path]) }})
	}
	unit, err := packageUnit(digests, o.t.m.Host.Paths.AgentUnit())
	if err != nil {
		return nil, err
	}
	unit = withPaths(unit, links)
	a.Files = append(a.Files, versions.AdoptedFile{Name: archive.Unit, Size: int64(len(unit)),
		Write: func(w io.Writer) error { _, err := w.Write(unit); return err }})
	tree, err := o.t.m.Host.Store.Adopt(ctx, a)
	if err != nil {
		return nil, err
	}
	o.t.m.Host.Label(ctx, tree.ProgramsDir())
	o.t.m.Host.Log.Info("the version that the package brought is kept; `teleport-update rollback` goes back to it",
		"version", tree.Release.Short(), "package", p.String())
	return &tree.Release, nil
}

// completePackageVersion adds the database that the version had when it was left.
func (o takingOver) completePackageVersion(dir string, r version.Release) error {
	if r == o.t.j.To.Release {
		return fmt.Errorf("it is version %s, which is active now", r.Short())
	}
	if !o.t.j.Database.Taken {
		return nil // there was no database, or a person did without a backup
	}
	return backup.CopyAs(o.t.j.Database.Dir, versions.Tree{Dir: dir}.BackupDir(), r)
}

// programBefore returns the program that the agent's unit led to before the links were ours.
func (o takingOver) programBefore() string {
	path := cmp.Or(o.t.j.Agent.Program, filepath.Join(o.t.m.Host.Paths.LinkDir, host.AgentName))
	for range 8 { // links may form a circle
		target := ""
		if n := o.changed(path); n >= 0 {
			target = o.t.j.Links[n].Before.Link
		} else {
			target, _ = os.Readlink(path)
		}
		switch {
		case target == "":
			return path
		case !filepath.IsAbs(target):
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return ""
}

// copyBefore returns where the content of a file is that our link may have replaced.
func (o takingOver) copyBefore(path string) string {
	if n := o.changed(path); n >= 0 && o.t.j.Links[n].Before.Saved != "" {
		return filepath.Join(o.t.m.Host.Paths.Original(), o.t.j.Links[n].Before.Saved)
	}
	return path
}

func (o takingOver) changed(path string) int {
	return slices.IndexFunc(o.t.j.Links, func(c state.LinkChange) bool { return c.Path == path })
}

// packageUnit returns the agent's unit as a package brought it.
func packageUnit(digests map[string]string, name string) ([]byte, error) {
	for _, path := range slices.Sorted(maps.Keys(digests)) {
		if strings.HasSuffix(path, "/systemd/system/"+name) {
			var unit bytes.Buffer
			err := ospackage.CopyWhole(&unit, path, digests[path])
			return unit.Bytes(), err
		}
	}
	return nil, errors.New("it has no unit for the agent")
}

// withPaths returns a unit in which programs have other paths; they come in pairs. An empty path is
// one that is not known, as without systemd, and is left out: each space would match it.
func withPaths(unit []byte, paths []string) []byte {
	var words []string
	for pair := range slices.Chunk(paths, 2) {
		if pair[0] == "" {
			continue
		}
		for _, end := range []string{" ", "\n"} {
			words = append(words, pair[0]+end, pair[1]+end)
		}
	}
	return []byte(strings.NewReplacer(words...).Replace(string(unit)))
}

// takingOver is a transaction which makes the agent that came with packages the updater's own.
type takingOver struct{ t *transaction }
