package main

import (
	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
)

// modeCommand sets the mode in autoupdate_config rather than in autoupdate_version. In
// the reference of Managed Updates, config says how and when hosts update, and version
// to what; whether they update at all belongs to config. Also, a release process writes
// a new version for every release, and a person's "mode suspended" must outlast that.
func modeCommand() *cli.Command {
	const usage = "mode enabled|suspended|disabled"
	command := &cli.Command{
		Name:      "mode",
		Usage:     "let hosts update, pause updates or turn them off",
		UsageText: "teleport-find " + usage,
		Description: changesUsage + `

It sets spec.agents.mode of the resource autoupdate_config. autoupdate_version may have a mode, too:
the more restrictive of the two is in force.`,
		OnUsageError: onUsageError, HideHelpCommand: true,
		Action: needsWord(usage),
	}
	for _, mode := range []struct {
		mode  rollout.Mode
		usage string
	}{
		{rollout.Enabled, "let hosts update"},
		{rollout.Suspended, "pause updates; new hosts still install the version"},
		{rollout.Disabled, "turn updates off; somebody else updates the hosts"},
	} {
		command.Subcommands = append(command.Subcommands, &cli.Command{
			Name: string(mode.mode), Usage: mode.usage, OnUsageError: onUsageError,
			UsageText: "teleport-find mode " + string(mode.mode) + " [--reason TEXT] [--dry-run] [-o table|json|yaml]",
			Flags:     changeFlags(),
			Action:    func(c *cli.Context) error { return setMode(c, mode.mode) },
		})
	}
	return command
}

func setMode(c *cli.Context, mode rollout.Mode) error {
	if err := noWords(c); err != nil {
		return err
	}
	return changeResource(c, func() rollout.Resource { return rollout.NewConfig() }, func(r rollout.Resource) error {
		r.(*rollout.Config).Spec.Agents.Mode = mode
		return nil
	})
}
