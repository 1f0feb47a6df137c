package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// errHelp ends a command that was asked for its help after a word, and has shown
// it.
var errHelp = errors.New("help was asked for")

// interleaved returns the words of a command that are no flags. Flags may stand
// between and after them, which package flag does not know of.
func interleaved(c *cli.Context) (words []string, err error) {
	rest := c.Args().Slice()
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			words = append(words, arg)
			continue
		}
		if arg == "--" {
			return append(words, rest...), nil
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "help" || name == "h" {
			return nil, errors.Join(cli.ShowSubcommandHelp(c), errHelp)
		}
		i := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if i < 0 {
			return nil, usageErrorf("%s has no flag %s", c.Command.Name, arg)
		}
		if _, isSwitch := c.Command.Flags[i].(*cli.BoolFlag); isSwitch && !hasValue {
			value, hasValue = "true", true
		}
		if !hasValue {
			if len(rest) == 0 {
				return nil, usageErrorf("%s needs a value", arg)
			}
			value, rest = rest[0], rest[1:]
		}
		if err := c.Set(c.Command.Flags[i].Names()[0], value); err != nil {
			return nil, usageErrorf("%s: %w", arg, err)
		}
	}
	return words, nil
}
