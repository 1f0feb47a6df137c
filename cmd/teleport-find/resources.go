package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server"
)

const changesUsage = `The server on this machine is asked to do it, over its admin socket; hosts are told at once.`

// changeFlags are those of every command that changes something.
func changeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "reason", Usage: "`TEXT` that the history keeps"},
		&cli.BoolFlag{Name: "dry-run", Usage: "say what would change, and change nothing"},
		outputFlag("table"), adminSocketFlag(),
	}
}

func setVersionCommand() *cli.Command {
	return &cli.Command{
		Name:  "set-version",
		Usage: "say which version hosts are to run",
		UsageText: "teleport-find set-version VERSION [--schedule regular|critical|immediate] [--start VERSION] [--reason TEXT] [--dry-run] [-o table|json|yaml]\n" +
			"teleport-find set-version --newest [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: changesUsage + `

It sets spec.agents of the resource autoupdate_version. Without --schedule the version goes from group to group, if
autoupdate_config has groups, and is for every host at once if it has none; a schedule is for one version, and is not
kept for the next. Without --start, a version that goes from group to group starts from the last one that came to all
groups: this is what new hosts install before the turn of their group, and what a rollback goes back to. Hosts that
have the agent update only when updates are enabled: see "teleport-find enable".

With --newest no version is set any more, and the rollout is gone: it is as with a new store.`,
		OnUsageError: onUsageError,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "schedule", Usage: "`regular|critical|immediate`: group by group, group by group for what cannot wait, or every host at once"},
			&cli.StringFlag{Name: "start", Usage: "`VERSION` that new hosts install before the turn of their group"},
			&cli.BoolFlag{Name: "newest", Usage: "set no version any more: hosts are told the newest release that there was when the server started"},
		}, changeFlags()...),
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			if c.Bool("newest") {
				return forgetVersion(c, words)
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
			if schedule == "" {
				if schedule, err = usualSchedule(c); err != nil {
					return err
				}
			}
			return edit(c, func() rollout.Resource { return rollout.NewVersion() }, func(r rollout.Resource) error {
				agents := &r.(*rollout.Version).Spec.Agents
				if start != "" {
					agents.StartVersion = start
				} else if schedule != rollout.Immediate && target != agents.TargetVersion {
					if agents.StartVersion, err = reached(c, r.(*rollout.Version)); err != nil {
						return err
					}
				}
				agents.TargetVersion, agents.Schedule = target, schedule
				return nil
			})
		},
	}
}

// reached is the last version that came to all groups, as far as the server knows.
func reached(c *cli.Context, before *rollout.Version) (rollout.Semver, error) {
	agents := before.Spec.Agents
	r, err := newAdminClient(c).get(c.Context, rollout.KindRollout)
	if refused(err, http.StatusNotFound) {
		return agents.StartVersion, nil
	}
	if err != nil {
		return "", err
	}
	last := r.(*rollout.Rollout)
	if last.Of(before) && (last.Status.State == rollout.Done || last.Spec.Schedule == rollout.Immediate) {
		return agents.TargetVersion, nil
	}
	return agents.StartVersion, nil
}

// usualSchedule is regular where there are groups to go through. Without any, no host
// would ever be told to update by it.
func usualSchedule(c *cli.Context) (rollout.Schedule, error) {
	r, err := newAdminClient(c).get(c.Context, rollout.KindConfig)
	if refused(err, http.StatusNotFound) {
		return rollout.Immediate, nil
	}
	if err != nil {
		return "", err
	}
	if len(r.(*rollout.Config).Spec.Agents.Schedules.Regular) > 0 {
		return rollout.Regular, nil
	}
	return rollout.Immediate, nil
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
		UsageText: "teleport-find " + name + " [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: changesUsage + `

It sets spec.agents.mode of the resource autoupdate_config. A mode in autoupdate_version holds too: of the two,
the more restrictive one is what counts. A --groups file or --agent-version goes before both.`,
		OnUsageError: onUsageError,
		Flags:        changeFlags(),
		Action: func(c *cli.Context) error {
			if words, err := wordsOf(c); err != nil {
				return err
			} else if len(words) > 0 {
				return usageErrorf("%s takes no arguments, got %q", name, words[0])
			}
			return edit(c, func() rollout.Resource { return rollout.NewConfig() }, func(r rollout.Resource) error {
				r.(*rollout.Config).Spec.Agents.Mode = mode
				return nil
			})
		},
	}
}

func applyCommand() *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "write resources from a file",
		UsageText: "teleport-find apply -f FILE [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: changesUsage + `

The file holds autoupdate_config, autoupdate_version or both, in YAML or JSON, as "teleport-find get" prints them.
All of it must be right before any of it is written. A resource with metadata.revision is written only if
it has not changed since that revision.`,
		OnUsageError: onUsageError,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE` with the resources; - for the standard input"},
		}, changeFlags()...),
		Action: func(c *cli.Context) error {
			if words, err := wordsOf(c); err != nil {
				return err
			} else if len(words) > 0 {
				return usageErrorf("apply takes one file, by -f; got %q", words[0])
			}
			list, err := readResources(c)
			if err != nil {
				return err
			}
			result, err := newAdminClient(c).put(c.Context, list, c.Bool("dry-run"), false, c.String("reason"))
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
	kinds := strings.Join(slices.Concat(rollout.Kinds, rollout.SystemKinds), "|")
	return &cli.Command{
		Name:         "get",
		Usage:        "print a resource, or all",
		UsageText:    "teleport-find get [" + kinds + "[/NAME]] [-o yaml|json|table] [--admin-socket PATH]",
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{outputFlag("yaml"), adminSocketFlag()},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			if len(words) > 1 || len(words) == 1 && !knownKind(words[0]) {
				return usageErrorf("get takes one of %s, got %q", strings.ReplaceAll(kinds, "|", ", "), words)
			}
			if len(words) == 0 {
				return getAll(c)
			}
			r, err := newAdminClient(c).get(c.Context, words[0])
			if err != nil {
				return err
			}
			return printResources(c, r)
		},
	}
}

func getAll(c *cli.Context) error {
	client := newAdminClient(c)
	var all server.AdminResources
	if err := client.ask(c.Context, http.MethodGet, "/v1/resources", nil, &all); err != nil {
		return err
	}
	var list []rollout.Resource
	for _, data := range all.Resources {
		parsed, err := rollout.Parse(data)
		if err != nil {
			return fmt.Errorf("a resource of the server is not understood (is it of another version?): %w", err)
		}
		list = append(list, parsed...)
	}
	return printResources(c, list...)
}

// printResources prints them as "apply" takes them, or the list of them.
func printResources(c *cli.Context, list ...rollout.Resource) error {
	if c.String("output") == "table" {
		t := newTable("KIND", "NAME", "REVISION")
		for _, r := range list {
			t.row(r.GetKind(), r.GetMetadata().Name, strconv.FormatInt(r.GetMetadata().Revision, 10))
		}
		return t.print(c.App.Writer)
	}
	write := map[string]func(rollout.Resource) ([]byte, error){"yaml": rollout.YAML, "json": rollout.JSON}[c.String("output")]
	for i, r := range list {
		data, err := write(r)
		if err != nil {
			return err
		}
		if i > 0 && c.String("output") == "yaml" {
			data = append([]byte("---\n"), data...)
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%s\n", strings.TrimSpace(string(data))); err != nil {
			return err
		}
	}
	return nil
}

// knownKind takes the name of a resource after its kind.
func knownKind(word string) bool {
	kind, _, named := strings.Cut(word, "/")
	several := kind == rollout.KindReport || kind == rollout.KindPlan
	return slices.Contains(slices.Concat(rollout.Kinds, rollout.SystemKinds), kind) && named == several
}

// edit changes a resource, or begins one. Should somebody else change it at the
// same time, both changes are made.
func edit(c *cli.Context, begin func() rollout.Resource, change func(rollout.Resource) error) error {
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
		if err := change(r); err != nil {
			return err
		}
		result, err := client.put(c.Context, []rollout.Resource{r}, c.Bool("dry-run"), isNew, c.String("reason"))
		if refused(err, http.StatusPreconditionFailed) && attempt < 10 {
			continue
		}
		if err != nil {
			return err
		}
		return tell(c, result)
	}
}

// forgetVersion is the way back to the newest release.
func forgetVersion(c *cli.Context, words []string) error {
	if len(words) > 0 || c.String("schedule") != "" || c.String("start") != "" {
		return usageErrorf("set-version takes a version, or --newest alone")
	}
	var result server.AdminResult
	path := fmt.Sprintf("/v1/resources/%s?dry_run=%t&reason=%s", rollout.KindVersion, c.Bool("dry-run"), url.QueryEscape(c.String("reason")))
	if err := newAdminClient(c).ask(c.Context, http.MethodDelete, path, nil, &result); err != nil {
		return err
	}
	return tell(c, result)
}

// tell says what was done, and warns on the error output.
func tell(c *cli.Context, result server.AdminResult) error {
	if c.String("output") != "table" {
		return printValue(c, result)
	}
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
	are := "are"
	if c.Bool("dry-run") {
		are = "would be"
	}
	if len(result.Groups) == 0 {
		text += fmt.Sprintf("hosts %s told %s\n", are, toldWords(result.Answer))
	}
	for _, g := range result.Groups {
		text += fmt.Sprintf("hosts of %s %s told %s%s\n", g.Group, are, toldWords(g.AdminAnswer), turnWords(g))
	}
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

func toldWords(a server.AdminAnswer) string {
	switch {
	case a.AgentVersion == "":
		return "no version, and to stay as they are"
	case a.AutoUpdate:
		return fmt.Sprintf("%s %s, and to update", a.AgentVersion, a.Edition)
	}
	return fmt.Sprintf("%s %s, and to stay as they are", a.AgentVersion, a.Edition)
}

// turnWords says when it is a group's turn, if that is still to come.
func turnWords(g server.AdminGroup) string {
	switch {
	case g.Waits != "":
		return "; " + g.Waits
	case g.State == rollout.Unstarted:
		return "; the group starts " + g.Starts.Format("Mon 2006-01-02 15:04 UTC") + " at the earliest"
	}
	return fmt.Sprintf("; the group is %s", g.State)
}
