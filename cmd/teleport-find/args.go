package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/internal/typo"
)

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usageErrorf(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		return noFlag(c, "--"+strings.TrimLeft(name, "-"))
	}
	return usageError{err}
}

func noFlag(c *cli.Context, arg string) error {
	var known []string
	for _, f := range c.Command.Flags {
		known = append(known, "--"+f.Names()[0])
	}
	return usageErrorf("%s has no flag %s%s", c.Command.Name, arg, typo.DidYouMean(arg, known))
}

func commandNames(commands []*cli.Command) (names []string) {
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}

// errHelp ends a command after its help was asked for by a word, and shown.
var errHelp = errors.New("help was asked for")

// interleaved returns the words of a command without its flags. Flags may stand between
// and after the words, which package flag does not know.
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
			return nil, noFlag(c, arg)
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

// lines is a flag that may be given several times. Values are not split: a comma in a
// URL template separates nothing.
type lines []string

// Set implements cli.Generic. An environment has only one value, with several lines.
func (l *lines) Set(text string) error {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			*l = append(*l, line)
		}
	}
	return nil
}

func (l *lines) String() string { return strings.Join(*l, " ") }

// parseJitter reads a jitter as flags give it: a number of seconds,
// or a duration such as "1m30s".
func parseJitter(s string) (time.Duration, error) {
	jitter, err := time.ParseDuration(s)
	if seconds, numberErr := strconv.ParseInt(s, 10, 32); numberErr == nil {
		jitter, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || jitter < 0 || jitter > find.MaxJitter || jitter%time.Second != 0 {
		return 0, fmt.Errorf("jitter %.40q is not a whole number of seconds from 0 to %d, or such a duration as 1m30s", s,
			find.MaxJitter/time.Second)
	}
	return jitter, nil
}
