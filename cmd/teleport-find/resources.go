package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server"
)

const changesUsage = `The server on this machine is asked to do it, over its admin socket; hosts are told at once.`

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "say what would change, and change nothing"}
}

func setVersionCommand() *cli.Command {
	return &cli.Command{
		Name:      "set-version",
		Usage:     "say which version hosts are to run",
		UsageText: "teleport-find set-version VERSION [--schedule immediate] [--start VERSION] [--dry-run] [--admin-socket PATH]",
		Description: changesUsage + `

It sets spec.agents of the resource autoupdate_version. What no flag says stays as it is there. Hosts that
have the agent update only when updates are enabled: see "teleport-find enable".`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "schedule", Usage: "`immediate|regular`: for every host at once, or group by group, which this server cannot do yet"},
			&cli.StringFlag{Name: "start", Usage: "`VERSION` that new hosts install before the turn of their group"},
			dryRunFlag(), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			words, err := interleaved(c)
			if err != nil {
				return err
			}
			if len(words) != 1 {
				return usageErrorf("set-version takes one version, got %q", words)
			}
			var target, start rollout.Semver
			if err := target.UnmarshalText([]byte(words[0])); err != nil {
				return usageError{err}
			}
			if s := c.String("start"); s != "" {
				if err := start.UnmarshalText([]byte(s)); err != nil {
					return usageErrorf("--start: %w", err)
				}
			}
			var schedule rollout.Schedule
			if s := c.String("schedule"); s != "" {
				if err := schedule.UnmarshalText([]byte(s)); err != nil {
					return usageErrorf("--schedule: %w", err)
				}
			}
			return edit(c, func() rollout.Resource { return rollout.NewVersion() }, func(r rollout.Resource) {
				agents := &r.(*rollout.Version).Spec.Agents
				agents.TargetVersion = target
				if start != "" {
					agents.StartVersion = start
				}
				if schedule != "" {
					agents.Schedule = schedule
				}
			})
		},
	}
}

// modeCommand sets the mode in autoupdate_config rather than in
// autoupdate_version. The reference of Managed Updates has config say how and when
// hosts update, and version to what; whether they do at all is of the first kind.
// The second is what a release process writes anew for every release, and a
// person's "suspend" must outlast that.
func modeCommand(name string, mode rollout.Mode, usage string) *cli.Command {
	return &cli.Command{
		Name:      name,
		Usage:     usage,
		UsageText: "teleport-find " + name + " [--dry-run] [--admin-socket PATH]",
		Description: changesUsage + `

It sets spec.agents.mode of the resource autoupdate_config. A mode in autoupdate_version holds too: of the two,
the more restrictive one is what counts. A --groups file or --agent-version goes before both.`,
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{dryRunFlag(), adminSocketFlag()},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			return edit(c, func() rollout.Resource { return rollout.NewConfig() }, func(r rollout.Resource) {
				r.(*rollout.Config).Spec.Agents.Mode = mode
			})
		},
	}
}

func applyCommand() *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "write resources from a file",
		UsageText: "teleport-find apply -f FILE [--dry-run] [--admin-socket PATH]",
		Description: changesUsage + `

The file holds autoupdate_config, autoupdate_version or both, in YAML or JSON, as "teleport-find get" prints them.
All of it must be right before any of it is written. A resource with metadata.revision is written only if
it has not changed since that revision.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE` with the resources; - for the standard input"},
			dryRunFlag(), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			if words, err := interleaved(c); err != nil {
				return err
			} else if len(words) > 0 {
				return usageErrorf("apply takes one file, by -f; got %q", words[0])
			}
			list, err := readResources(c)
			if err != nil {
				return err
			}
			result, err := newAdminClient(c).put(c.Context, list, c.Bool("dry-run"), false)
			if refused(err, http.StatusPreconditionFailed) {
				return fmt.Errorf(`%w: change what "teleport-find get" prints now, or apply it without metadata.revision`, err)
			}
			if err != nil {
				return err
			}
			return tell(c, result)
		},
	}
}

func readResources(c *cli.Context) ([]rollout.Resource, error) {
	name := c.String("file")
	if name == "" {
		return nil, usageErrorf("apply which file? -f FILE")
	}
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = io.ReadAll(c.App.Reader)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	list, err := rollout.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; nothing was written", name, err)
	}
	return list, nil
}

func getCommand() *cli.Command {
	return &cli.Command{
		Name:         "get",
		Usage:        "print a resource",
		UsageText:    "teleport-find get " + strings.Join(rollout.Kinds, "|") + " [-o yaml|json] [--admin-socket PATH]",
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "yaml", Usage: "how to print it, `yaml|json`"},
			adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			words, err := interleaved(c)
			if err != nil {
				return err
			}
			write := map[string]func(rollout.Resource) ([]byte, error){"yaml": rollout.YAML, "json": rollout.JSON}[c.String("output")]
			switch {
			case len(words) != 1 || !slices.Contains(rollout.Kinds, words[0]):
				return usageErrorf("get takes one of %s, got %q", strings.Join(rollout.Kinds, ", "), words)
			case write == nil:
				return usageErrorf("-o %q is neither yaml nor json", c.String("output"))
			}
			r, err := newAdminClient(c).get(c.Context, words[0])
			if err != nil {
				return err
			}
			data, err := write(r)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "%s\n", strings.TrimSpace(string(data)))
			return err
		},
	}
}

// edit changes a resource, or begins one. Should somebody else change it at the
// same time, both changes are made.
func edit(c *cli.Context, begin func() rollout.Resource, change func(rollout.Resource)) error {
	client := newAdminClient(c)
	for attempt := 1; ; attempt++ {
		kind := begin().GetKind()
		r, err := client.get(c.Context, kind)
		isNew := refused(err, http.StatusNotFound)
		if isNew {
			r = begin()
		} else if err != nil {
			return err
		}
		change(r)
		result, err := client.put(c.Context, []rollout.Resource{r}, c.Bool("dry-run"), isNew)
		if refused(err, http.StatusPreconditionFailed) && attempt < 10 {
			continue
		}
		if err != nil {
			return err
		}
		return tell(c, result)
	}
}

// tell says what was done, and warns on the error output.
func tell(c *cli.Context, result server.AdminResult) error {
	text := ""
	for _, r := range result.Resources {
		did := string(r.Change)
		if c.Bool("dry-run") {
			if r.Change != server.Unchanged {
				did = "would be " + did
			}
			did += " (a dry run)"
		}
		text += r.Kind + " " + did + "\n"
	}
	told := "no version, and to stay as they are"
	if a := result.Answer; a.AgentVersion != "" {
		told = fmt.Sprintf("%s %s, and to stay as they are", a.AgentVersion, a.Edition)
		if a.AutoUpdate {
			told = fmt.Sprintf("%s %s, and to update", a.AgentVersion, a.Edition)
		}
	}
	are := "are"
	if c.Bool("dry-run") {
		are = "would be"
	}
	text += fmt.Sprintf("hosts %s told %s\n", are, told)
	for _, note := range result.Notes {
		text += "note: " + note + "\n"
	}
	if _, err := io.WriteString(c.App.Writer, text); err != nil {
		return err
	}
	for _, warning := range result.Warnings {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s\n", warning)
	}
	return nil
}
