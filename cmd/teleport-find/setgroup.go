package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"teleport-update/find/rollout"
)

// groupFields are the fields of a group that have a flag.
var groupFields = []struct{ name, usage string }{
	{"days", "`DAYS` of the week, as Mon,Tue, or *"},
	{"start-hour", "`HOUR` in UTC, 0 to 23"},
	{"wait-hours", "wait `N` hours after the groups before are done"},
	{"canary-count", "let `N` hosts go first, up to 5"},
	{"jitter-seconds", "a host waits at most `N` seconds"},
	{"timeout-seconds", "a host has timed out after `N` seconds"},
	{"failure-seconds", "an update has failed after `N` seconds of silence"},
	{"max-in-flight", "let `N` hosts, or N%, update at once"},
	{"max-timeout-before-halt", "let `N%` of the hosts time out"},
	{"max-failed-before-halt", "let `N%` of the hosts fail"},
	{"requires", "`GROUPS` that have to be done before, with commas between them"},
}

func setGroupCommand() *cli.Command {
	flags := []cli.Flag{&cli.StringFlag{Name: "schedule", Value: "regular", Usage: "`regular|critical`: the schedule that has the group"}}
	for _, f := range groupFields {
		flags = append(flags, &cli.StringFlag{Name: f.name, Usage: f.usage})
	}
	return &cli.Command{
		Name:  "set-group",
		Usage: "change single fields of a group",
		UsageText: "teleport-find set-group GROUP --FIELD VALUE… [--schedule regular|critical] [--reason TEXT] [--dry-run] [-o " +
			"table|json|yaml]",
		Description: changesUsage + `

It sets fields of a group in autoupdate_config, and leaves all else as it is: set-group dev --start-hour 14. An empty value
removes a field. What is changed is in force from the next rollout on.`,
		OnUsageError: onUsageError,
		Flags:        append(flags, changeFlags()...),
		Action: func(c *cli.Context) error {
			name, err := oneWord(c, "the name of one group")
			if err != nil {
				return err
			}
			schedule := c.String("schedule")
			if schedule != "regular" && schedule != "critical" {
				return usageErrorf("--schedule %q is not one of regular, critical", schedule)
			}
			values := make(map[string]string)
			for _, f := range groupFields {
				if c.IsSet(f.name) {
					values[f.name] = c.String(f.name)
				}
			}
			if len(values) == 0 {
				return usageErrorf("set-group sets which field? As in --start-hour 14")
			}
			begin := func() rollout.Resource { return rollout.NewConfig() }
			return edit(c, begin, func(r rollout.Resource) error { return setGroup(r.(*rollout.Config), schedule, name, values) })
		},
	}
}

// setGroup sets fields of a group in the text of a configuration, and parses it like the text of a person.
func setGroup(config *rollout.Config, schedule, name string, values map[string]string) error {
	group, document, err := groupIn(config, schedule, name)
	if err != nil {
		return err
	}
	for _, f := range groupFields {
		value, given := values[f.name]
		if !given {
			continue
		}
		if err := setField(group, strings.ReplaceAll(f.name, "-", "_"), value, f.name == "days" || f.name == "requires"); err != nil {
			return usageErrorf("--%s: %w", f.name, err)
		}
	}
	text, err := yaml.Marshal(document)
	if err != nil {
		return err
	}
	list, err := rollout.Parse(text)
	if err != nil {
		return errors.New(strings.TrimSpace(lineNumber.ReplaceAllString(err.Error(), ""))) // the lines are in no file
	}
	revision := config.Metadata.Revision
	*config = *list[0].(*rollout.Config)
	config.Metadata.Revision = revision
	return nil
}

// lineNumber matches the line numbers in errors about a text that nobody wrote.
var lineNumber = regexp.MustCompile(`line [0-9]+: `)

// groupIn returns the node of a group in the document of a configuration.
func groupIn(config *rollout.Config, schedule, name string) (group, document *yaml.Node, err error) {
	groups := map[string][]rollout.Group{"regular": config.Spec.Agents.Schedules.Regular,
		"critical": config.Spec.Agents.Schedules.Critical}[schedule]
	at := slices.IndexFunc(groups, func(g rollout.Group) bool { return g.Name == name })
	if at < 0 {
		var names []string
		for _, g := range groups {
			names = append(names, g.Name)
		}
		there := "it has none: \"teleport-find apply\" adds groups"
		if len(names) > 0 {
			there = "there are: " + strings.Join(names, ", ")
		}
		return nil, nil, fmt.Errorf("the schedule %s has no group %q (%s)", schedule, name, there)
	}
	text, err := rollout.YAML(config)
	if err != nil {
		return nil, nil, err
	}
	document = new(yaml.Node)
	if err := yaml.Unmarshal(text, document); err != nil {
		return nil, nil, err
	}
	group = document.Content[0]
	for _, field := range []string{"spec", "agents", "schedules", schedule} {
		group = group.Content[slices.IndexFunc(group.Content, func(n *yaml.Node) bool { return n.Value == field })+1]
	}
	return group.Content[at], document, nil
}

// setField sets a field of a mapping, or removes it.
func setField(mapping *yaml.Node, name, value string, list bool) error {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(value), &node); err != nil && !list {
		return fmt.Errorf("%q is not a value", value)
	}
	at := slices.IndexFunc(mapping.Content, func(n *yaml.Node) bool { return n.Value == name })
	if at >= 0 {
		mapping.Content = slices.Delete(mapping.Content, at, at+2)
	}
	if value == "" {
		return nil
	}
	content := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	if !list {
		content = node.Content[0]
	}
	if list {
		for item := range strings.SplitSeq(value, ",") {
			content.Content = append(content.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle,
				Value: strings.TrimSpace(item)})
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, content)
	return nil
}

func resetConfigCommand() *cli.Command {
	return &cli.Command{
		Name:      "reset-config",
		Usage:     "set the configuration back to its defaults: no groups, updates off",
		UsageText: "teleport-find reset-config [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: changesUsage + `

It replaces autoupdate_config by one that says nothing: no groups, no mode, the strategy halt-on-error. No host updates by
itself until "teleport-find enable", unless autoupdate_version has a mode. For the rollout there is "teleport-find reset".`,
		OnUsageError: onUsageError,
		Flags:        changeFlags(),
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			if _, err := newAdminClient(c).get(c.Context, rollout.KindConfig); refused(err, http.StatusNotFound) {
				return fmt.Errorf("there is no %s in the store: the defaults are in force", rollout.KindConfig)
			}
			return edit(c, func() rollout.Resource { return rollout.NewConfig() }, func(r rollout.Resource) error {
				config := r.(*rollout.Config)
				revision := config.Metadata.Revision
				*config = *rollout.NewConfig()
				config.Metadata.Revision = revision
				return nil
			})
		},
	}
}
