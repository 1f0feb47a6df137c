package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
	"teleport-update/systemd"
	"teleport-update/versions"
	"teleport-update/versions/archive"
)

const fipsFlag = "--fips"

// unitOf returns the unit of a version on this host: the release's unit, with the arguments that
// the unit from before the first enable had and the release's unit lacks.
func (h *Host) unitOf(tree versions.Tree) ([]byte, error) {
	content, err := regular.Read(tree.UnitFile(), archive.MaxUnit, 0)
	if err != nil {
		return nil, fmt.Errorf("read the unit of version %s: %w", tree.Release.Version, err)
	}
	return systemd.WithArguments(content, h.kept(content)), nil
}

// kept returns the arguments from before that a unit of a release lacks. Until the first version is
// proven, they come from the unit that starts the agent: the original one, and then ours, which has
// them.
func (h *Host) kept(release []byte) []systemd.Argument {
	var before []systemd.Argument
	// CheckArguments refuses a unit that cannot be read.
	if command, err := h.hostCommand(); err == nil && startsAgent(command) {
		before = systemd.Arguments(command)
	}
	if h.HasOriginals() {
		// The whole record has a line for each program, and every run of the timer comes here.
		var o struct {
			Arguments []string `json:"arguments"`
		}
		err := h.decodeOriginals(&o)
		if err != nil {
			h.Log.Warn("the agent's arguments from before the first enable are not known", "error", err)
		}
		before = systemd.Arguments(append([]string{"start"}, o.Arguments...))
	}
	missing, _ := systemd.Missing(before, systemd.UnitArguments(release))
	// CheckArguments refuses the others, unless a drop-in has the last word.
	return slices.DeleteFunc(missing, func(a systemd.Argument) bool { return !a.Plain() })
}

// hostCommand returns the command of the unit that starts an agent that is not ours yet: the unit
// in our unit's place, else one that ranks below it. A link is followed as systemd follows it.
func (h *Host) hostCommand() ([]string, error) {
	dirs := []string{h.Paths.UnitDir}
	if h.systemdReads() {
		dirs = append(dirs, lowerDirs(h.Paths.UnitDir)...)
	}
	for _, dir := range dirs {
		content, err := regular.Read(filepath.Join(dir, h.Paths.AgentUnit()), archive.MaxUnit, 0)
		_, odd := errors.AsType[*regular.UnsuitableError](err)
		switch {
		case err == nil:
			return systemd.UnitCommand(content), nil
		case !odd && !errors.Is(err, fs.ErrNotExist):
			return nil, failure.Unchanged("see with which arguments the agent is started: %w", err).To("see that root can read the file")
		}
	}
	return nil, nil
}

// startsAgent reports whether a command starts the agent itself, so that the words after it are the agent's arguments:
// not a shell, a script or a container that starts it.
func startsAgent(command []string) bool {
	if len(command) < 2 || command[1] != "start" {
		return false
	}
	if filepath.Base(command[0]) == AgentName {
		return true
	}
	program, err := filepath.EvalSymlinks(command[0])
	return err == nil && filepath.Base(program) == AgentName
}

// saveArguments records, at the first enable, which arguments are kept.
func (h *Host) saveArguments(o *Originals, tree versions.Tree) {
	release, err := regular.Read(tree.UnitFile(), archive.MaxUnit, 0)
	if err != nil {
		return // nothing can be placed without it
	}
	for _, a := range h.kept(release) {
		o.Arguments = append(o.Arguments, a.Words...)
	}
}

// CheckArguments refuses a first version whose unit contradicts the arguments of the agent that is
// here, cannot be given them, or would lead the agent elsewhere. It logs which of them are kept. A
// drop-in with a command of its own has the last word, and settles it.
func (h *Host) CheckArguments(tree versions.Tree) error {
	if err := h.CheckFIPS(tree); err != nil {
		return err
	}
	if h.HasOriginals() || h.hasOwnCommand() {
		return nil
	}
	content, err := regular.Read(tree.UnitFile(), archive.MaxUnit, 0)
	if err != nil {
		return fmt.Errorf("read the unit of version %s: %w", tree.Release.Version, err)
	}
	before, err := h.hostCommand()
	if err != nil {
		return err
	}
	release := systemd.UnitArguments(content)
	missing, contradicting := systemd.Missing(systemd.Arguments(before), release)
	const settle = "write the whole command into a drop-in (`systemctl edit teleport`: " +
		"ExecStart=, then ExecStart=%s/teleport start …), then run the command again"
	if len(before) > 0 && !startsAgent(before) {
		// Its words may hold a password.
		return failure.Unchanged("the agent's unit runs %s, and not `teleport start …` itself: its arguments cannot be kept", before[0]).
			To(settle, h.Paths.LinkDir).Refused()
	}
	if len(contradicting) > 0 {
		return failure.Unchanged("the agent is started with %s, and version %s says otherwise in its unit: %s",
			strings.Join(systemd.Texts(contradicting), " "), tree.Release.Short(), strings.Join(systemd.Texts(release), " ")).
			To(settle, h.Paths.LinkDir).Refused()
	}
	for _, a := range missing {
		if !a.Plain() {
			return failure.Unchanged("the agent is started with %q, which cannot be written into the unit of version %s",
				strings.Join(a.Words, " "), tree.Release.Short()).
				To(settle, h.Paths.LinkDir).Refused()
		}
		if a.Name == fipsFlag && !tree.Release.Edition.FIPS() {
			return notFIPS(tree)
		}
	}
	unit, err := h.unitOf(tree)
	if err != nil {
		return err
	}
	now, then, err := h.AgentUnit().ledBy(unit)
	if err == nil && now != then {
		return failure.Unchanged("the agent's unit leads it to %s, and with the unit of version %s that would be %s", now,
			tree.Release.Short(), then).
			To(settle, h.Paths.LinkDir).Refused()
	}
	if len(missing) > 0 {
		h.Log.Info("the agent keeps arguments that its unit has and the release's has not",
			"arguments", strings.Join(systemd.Texts(missing), " "))
	}
	return nil
}

// CheckFIPS refuses a FIPS build that its unit on this host would start without --fips: the agent would
// run, and not by the rules of FIPS. If a drop-in has the last word, it only warns. It refuses another
// build that a drop-in starts with --fips: that would end at once.
func (h *Host) CheckFIPS(tree versions.Tree) error {
	own := ownCommand(h)
	switch starts := hasFIPS(systemd.Arguments(own)); {
	case own != nil && starts && !tree.Release.Edition.FIPS():
		return notFIPS(tree)
	case own != nil && !starts && tree.Release.Edition.FIPS():
		h.Log.Warn("a FIPS build is started without "+fipsFlag+" by the command of a drop-in (see `systemctl cat "+h.Paths.AgentUnit()+
			"`): the agent does not keep to the rules of FIPS", "version", tree.Release.Short())
	}
	if own != nil || !tree.Release.Edition.FIPS() {
		return nil
	}
	unit, err := h.unitOf(tree)
	if err != nil || hasFIPS(systemd.UnitArguments(unit)) {
		return err
	}
	return failure.Unchanged("version %s is a FIPS build, and the unit that it brings starts the agent without %s", tree.Release.Short(),
		fipsFlag).
		To("serve the tarball as it was published, with examples/systemd/fips/teleport.service, or write the whole command into a drop-in "+
			"(`systemctl edit teleport`: ExecStart=, then ExecStart=%s/teleport start %s …)", h.Paths.LinkDir, fipsFlag).Refused()
}

func hasFIPS(all []systemd.Argument) bool {
	return slices.ContainsFunc(all, func(a systemd.Argument) bool { return a.Name == fipsFlag })
}

func notFIPS(tree versions.Tree) error {
	return failure.Unchanged("the agent is started with %s, and version %s is no FIPS build", fipsFlag, tree.Release.Short()).
		To("set the cluster to the edition enterprise-fips, or remove %s from the agent's unit", fipsFlag).Refused()
}

// hasOwnCommand reports whether an administrator's drop-in says what is started.
func (h *Host) hasOwnCommand() bool { return ownCommand(h) != nil }

// ownCommand returns the command of an administrator's drop-in that says what is started; nil without one. The last of several
// counts.
func ownCommand(h *Host) (command []string) {
	files, _ := filepath.Glob(filepath.Join(h.configDir(), h.Paths.AgentUnit()+".d", "*.conf"))
	for _, file := range files {
		content, err := regular.Read(file, archive.MaxUnit, 0)
		// A drop-in that is masked leads to /dev/null, and says nothing.
		if _, odd := errors.AsType[*regular.UnsuitableError](err); err != nil && !odd && !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if words := systemd.UnitCommand(content); startsAgent(words) {
			command = words
		}
	}
	return command
}
