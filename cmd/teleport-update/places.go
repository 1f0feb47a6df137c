package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/installer"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/layout"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

const (
	programsFlag = "programs-dir"
	policyFlag   = "policy-dir"
)

// asked returns the folder of programs that the command line names, with enable or before it.
func asked(c *cli.Context) string {
	for _, at := range c.Lineage() {
		if dir := at.String(programsFlag); dir != "" {
			return dir
		}
	}
	return ""
}

// enabledIn returns the data folder that enable was given on a host whose usual one has no updater: the timer's unit names it. It is empty
// if there is no such folder, or if the usual one is in use.
func enabledIn(usual string, units []string) string {
	used := func(dir string) bool {
		_, err := os.Lstat(state.Paths{DataDir: dir}.Config())
		return err == nil || !errors.Is(err, fs.ErrNotExist) // if nobody can look, the folder counts as used
	}
	if used(usual) {
		return ""
	}
	command, err := systemd.ReadService(systemd.Units{}.Service(), units)
	if err != nil {
		return ""
	}
	n := slices.Index(command.Words, "--data-dir") + 1
	if n == 0 || n == len(command.Words) || !filepath.IsAbs(command.Words[n]) || !used(command.Words[n]) {
		return ""
	}
	return command.Words[n]
}

// placed applies the places that enable was given before, and over them the places that this command names. The first enable chooses a
// folder of units that is there at boot.
func placed(c *cli.Context, named state.Paths) state.Paths {
	paths := named.InPlace(asked(c))
	for flag, place := range map[string]struct {
		now   *string
		named string
	}{
		"unit-dir":     {&paths.UnitDir, named.UnitDir},
		"link-dir":     {&paths.LinkDir, named.LinkDir},
		"agent-config": {&paths.AgentConfig, named.AgentConfig},
	} {
		if c.IsSet(flag) {
			*place.now = place.named
		}
	}
	if c.Command.Name == "enable" && !c.IsSet("unit-dir") && host.Exists("/run/systemd/system") {
		paths.UnitDir = installer.UnitsAtBoot(paths, procfs.Host().MountAt, survey.HostBoot())
	}
	return paths
}

// runDir returns the folder in /run if this is the running host: it is empty for an image which is being built, and for a data folder which
// no timer looks after.
func runDir(dataDir string) string {
	// A shell that the agent serves may have the agent's folder, which is no place for root to write.
	if dir := os.Getenv("RUNTIME_DIRECTORY"); dir != "" && !strings.Contains(dir, layout.AgentRunDir) {
		return dir // the timer's unit
	}
	if !host.Exists("/run/systemd/system") {
		return ""
	}
	boot := procfs.BootID()
	if dataDir != layout.DataDir && state.LoadTicks(filepath.Join(layout.RunDir, "ticks.json"), dataDir,
		boot, state.Clock{}) == (state.Ticks{DataDir: dataDir, BootID: boot}) {
		return ""
	}
	return layout.RunDir
}
