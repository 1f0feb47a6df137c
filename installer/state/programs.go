package state

import (
	"cmp"
	"os"
	"path/filepath"

	"teleport-update/internal/layout"
)

// InPlace returns the paths of this host with the folder of programs that it has: the one that an
// open transaction names, else updates.yaml; on a host without a version the one that was asked
// for, which may be empty. The command reports files that cannot be read.
func (p Paths) InPlace(asked string) Paths {
	p.ProgramsDir = asked
	now, unread := LoadConfig(p.Config())
	if unread == nil {
		p = p.given(now.Spec)
	}
	if j, err := LoadJournal(p.Journal()); err == nil && j != nil {
		if j.To.Programs != "" {
			p.ProgramsDir = filepath.Dir(j.To.Programs)
			return p
		}
		if c, err := ParseConfig(j.Config); j.Config != "" && err == nil {
			p.ProgramsDir = c.Spec.ProgramsDir
			return p
		}
	}
	switch {
	case unread != nil:
	case now.Spec.ProgramsDir != "":
		p.ProgramsDir = now.Spec.ProgramsDir
	case now.Spec.ActiveVersion != "":
		p.ProgramsDir = p.linkedPrograms(now.Spec.ActiveVersion, asked)
	}
	return p
}

// given puts the places that enable was given in force, unless a command names others.
func (p Paths) given(s Spec) Paths {
	for _, place := range []struct {
		now          *string
		usual, given string
	}{
		{&p.UnitDir, layout.UnitDir, s.UnitDir},
		{&p.LinkDir, layout.LinkDir, s.LinkDir},
		{&p.AgentConfig, layout.AgentConfig, s.AgentConfig},
	} {
		if *place.now == place.usual && place.given != "" {
			*place.now = place.given
		}
	}
	return p
}

// Given writes the places down that are not the usual ones, for every later command.
func (p Paths) Given(s Spec) Spec {
	s.ProgramsDir = p.UnusualPrograms()
	s.UnitDir = unusual(p.UnitDir, layout.UnitDir)
	s.LinkDir = unusual(p.LinkDir, layout.LinkDir)
	s.AgentConfig = unusual(p.AgentConfig, layout.AgentConfig)
	return s
}

func unusual(path, usual string) string {
	if path == usual {
		return ""
	}
	return path
}

// linkedPrograms returns the folder of programs of a host whose updates.yaml names a version and no
// folder of programs, as in RFD 0169: the usual one if the version is there, else the one that the
// agent's link leads into, else the one that was asked for.
func (p Paths) linkedPrograms(active, asked string) string {
	target, _ := os.Readlink(filepath.Join(p.LinkDir, "teleport"))
	folder := cmp.Or(p.linked(active), active)
	usual := Paths{DataDir: p.DataDir}.Programs()
	if info, err := os.Lstat(filepath.Join(usual, folder, "bin")); err == nil && info.IsDir() {
		return ""
	}
	linked := filepath.Dir(filepath.Dir(filepath.Dir(target)))
	info, err := os.Lstat(filepath.Join(linked, folder, "bin"))
	whole := p.linked(active) != "" && err == nil && info.IsDir()
	if whole && linked != p.Versions() && CheckProgramsDir(linked) == nil {
		return linked
	}
	return asked
}

// UnusualPrograms returns the folder of programs for updates.yaml: empty if it is the one that
// follows from the data folder.
func (p Paths) UnusualPrograms() string {
	if (Paths{DataDir: p.DataDir}).Programs() == p.Programs() {
		return ""
	}
	return p.Programs()
}
