package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

const changesUsage = `Asks the server on this machine, over its admin socket. The change is in force at once.`

// changeFlags are the flags of every command that changes something.
func changeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "reason", Usage: "`TEXT` that the history keeps"},
		&cli.BoolFlag{Name: "dry-run", Usage: "say what would change, and change nothing"},
		outputFlag("table"), adminSocketFlag(),
	}
}

// changeResource changes a resource, or makes a new one. If somebody else changes it at the same time,
// both changes are made. The functions in add see the result before it is printed.
func changeResource(c *cli.Context, begin func() rollout.Resource, change func(rollout.Resource) error,
	add ...func(*adminapi.Result)) error {
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
		for _, f := range add {
			f(&result)
		}
		return printResult(c, result)
	}
}

// printResult prints the result, and warnings on the error output.
func printResult(c *cli.Context, result adminapi.Result) error {
	if c.String("output") != "table" {
		return printValue(c, result)
	}
	text := ""
	for _, r := range result.Resources {
		did := string(r.Change)
		if c.Bool("dry-run") {
			if r.Change != adminapi.Unchanged {
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
	if len(result.Groups) == 0 && !onlyHooks(result.Resources) {
		text += fmt.Sprintf("hosts %s told %s\n", are, answerWords(result.Answer))
	}
	for _, g := range result.Groups {
		text += fmt.Sprintf("hosts of %s %s told %s%s\n", g.Group, are, answerWords(g.Answer), turnWords(g))
	}
	for _, note := range result.Notes {
		text += "note: " + console.Line(note) + "\n"
	}
	if _, err := io.WriteString(c.App.Writer, text); err != nil {
		return err
	}
	for _, warning := range result.Warnings {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s\n", console.Line(warning))
	}
	return nil
}

// onlyHooks reports whether a change is for webhooks alone, so that answers to hosts do not change.
func onlyHooks(list []adminapi.Resource) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(r adminapi.Resource) bool {
		return !isHook(r.Kind)
	})
}

func answerWords(a adminapi.Answer) string {
	switch {
	case a.AgentVersion == "":
		return "no version, and to stay as they are"
	case a.AutoUpdate:
		return fmt.Sprintf("%s %s, and to update", a.AgentVersion, a.Edition)
	}
	return fmt.Sprintf("%s %s, and to stay as they are", a.AgentVersion, a.Edition)
}

// turnWords says when a group's turn comes, or the state of the group.
func turnWords(g adminapi.Group) string {
	switch {
	case g.Waits != "":
		return "; " + g.Waits
	case g.State == rollout.Unstarted:
		return "; the group starts " + rollout.ClockFrom(g.Starts) + " at the earliest"
	}
	return fmt.Sprintf("; the group is %s", g.State)
}
