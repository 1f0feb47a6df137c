package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

func rolloutCommand() *cli.Command {
	const group = "teleport-find rollout "
	force := &cli.BoolFlag{Name: "force", Usage: "without the groups before it, and without canaries"}
	return &cli.Command{
		Name:         "rollout",
		Usage:        "give groups orders, whatever the schedule says",
		UsageText:    group + "start|done|back|retry|reset [GROUP…]",
		OnUsageError: onUsageError, HideHelpCommand: true,
		Subcommands: []*cli.Command{
			orderCommand(rollout.StartUpdate, "GROUP… [--force]", "start groups now, whatever their hours",
				`Starts the groups now: canaries first, where the group has them. The groups before them must be done, unless
--force is given. With --force a group starts without canaries, and one that waits for its canaries goes on.`, force),
			orderCommand(rollout.MarkDone, "GROUP…", "end groups, so that those after them go on",
				`The groups are done and no longer halted. Under halt-on-error all their hosts are told to update.`),
			orderCommand(rollout.Rollback, "[GROUP…] [--to start|previous|VERSION]", "send hosts back to an older version",
				`The hosts of the groups are told to go back to the start version, with --to previous to the one that most hosts of their group
ran when the rollout began, or to a version by name. Without names, all groups that have started are told so, and the
others are halted. It says how many hosts go from which version to which, and with --dry-run does no more.`,
				&cli.StringFlag{Name: "to", Value: rollout.BackToStart, Usage: "`start|previous|VERSION`: where the hosts go"}),
			orderCommand(rollout.Retry, "GROUP…", "let halted groups go on", `For groups that are halted, once the cause is `+
				`removed: they start again, with new canaries and a new plan. A group whose plan
cannot be read gets a new one.`),
			orderCommand(rollout.Reset, "", "begin the rollout of the same version again",
				`All groups are unstarted, with the configuration as it is now. What has waited for the next rollout is in force.`),
		},
		Action: needsWord("rollout start|done|back|retry|reset"),
	}
}

// give sends an order to the server, and prints the result.
func give(c *cli.Context, order adminapi.Order) error {
	var result adminapi.OrderResult
	if err := newAdminClient(c).ask(c.Context, http.MethodPost, fmt.Sprintf("/v1/orders?dry_run=%t", c.Bool("dry-run")), order,
		&result); err != nil {
		return err
	}
	return printAs(c, result, func(w io.Writer, result adminapi.OrderResult) error {
		_, err := io.WriteString(w, orderText(result, c.Bool("dry-run")))
		return err
	})
}

func orderCommand(verb rollout.Verb, arguments, usage, description string, flags ...cli.Flag) *cli.Command {
	text := "teleport-find " + verb.Command()
	if arguments != "" {
		text += " " + arguments
	}
	names := ""
	if arguments != "" {
		names = "Name several groups as separate words or with commas between them. "
	}
	return &cli.Command{
		Name:         string(verb),
		Usage:        usage,
		UsageText:    text + " [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description:  description + "\n\n" + names + "The history keeps who gave the order, and why.",
		OnUsageError: onUsageError,
		Flags:        append(flags, changeFlags()...),
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			groups := list(words)
			switch {
			case arguments == "" && len(groups) > 0:
				return usageErrorf("%s takes no arguments, got %q", verb.Command(), groups[0])
			case strings.HasPrefix(arguments, "GROUP…") && len(groups) == 0:
				return usageErrorf("%s: which groups? teleport-find status lists them", verb.Command())
			}
			return give(c, adminapi.Order{Verb: verb, Groups: groups, Force: c.Bool("force"), To: c.String("to"), Reason: c.String("reason")})
		},
	}
}

// list takes several values in one word, with commas between them.
func list(words []string) (values []string) {
	for _, word := range words {
		for value := range strings.SplitSeq(word, ",") {
			if value != "" && !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
	}
	return values
}

func orderText(result adminapi.OrderResult, dryRun bool) string {
	text, is, was := "", "is", "was"
	if dryRun {
		is, was = "would be", "is"
	}
	for _, s := range result.Steps {
		switch {
		case s.Group == "":
			text += fmt.Sprintf("the rollout %s a new one, and %s\n", is, s.To)
		case s.Halted:
			text += fmt.Sprintf("%s %s halted: %s\n", console.Line(s.Group), is, console.Line(s.Message))
		case s.From == s.To && s.To != rollout.RolledBack:
			text += fmt.Sprintf("%s %s %s, from its beginning\n", console.Line(s.Group), is, s.To)
		default:
			text += fmt.Sprintf("%s %s %s, and %s %s\n", console.Line(s.Group), is, s.To, was, s.From)
		}
		if s.Message != "" && !s.Halted {
			text += "  " + console.Line(s.Message) + "\n"
		}
	}
	if dryRun {
		return text + "nothing was changed (a dry run)\n"
	}
	return text + outlookText(result.Overview.Outlook)
}
