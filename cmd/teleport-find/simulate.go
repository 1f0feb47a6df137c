package main

import (
	"cmp"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/simulate"
)

// simulationBegins is a Monday. It does not depend on today, so that a command always
// prints the same.
const simulationBegins = "2025-06-02T00:00:00Z"

func simulateCommand() *cli.Command {
	return &cli.Command{
		Name:      "simulate",
		Usage:     "try a schedule on hosts that do not exist",
		UsageText: "teleport-find simulate CONFIG [--hosts N|GROUP=N]… [--failure-rate P|GROUP=P]… [--loss-rate P|GROUP=P]… [flags]",
		Description: `CONFIG is a file with an autoupdate_config, as "apply" takes it, and perhaps an autoupdate_version; - is the standard
input. No server is asked and nothing is changed. The engine and the answers are those of the server; hosts and time are made
up. It prints the timeline of the rollout, what each rule of the engine did, and how it ends. The same command has the
same output; another --seed makes other random choices.

Example: a version that breaks one host of five on staging

   teleport-find simulate groups.yaml --hosts dev=10,staging=50,prod=1000 --failure-rate staging=20%`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "hosts", Usage: "how many hosts, `N` in each group or GROUP=N; may be repeated (default: 10)"},
			&cli.StringSliceFlag{Name: "failure-rate", Usage: "the part `P` of the hosts on which the version is rolled back, such " +
				"as 5%, or GROUP=P; may be repeated"},
			&cli.StringSliceFlag{Name: "loss-rate", Usage: "the part `P` of the hosts that begin to update and never report again, " +
				"or GROUP=P; may be repeated"},
			&cli.DurationFlag{Name: "poll", Value: 10 * time.Minute, Usage: "how often hosts ask, a `DURATION`"},
			&cli.DurationFlag{Name: "spread", Value: 5 * time.Minute, Usage: "the longest random `DURATION` that is added to --poll"},
			&cli.DurationFlag{Name: "update-time", Value: 3 * time.Minute, Usage: "the `DURATION` of an update"},
			&cli.StringFlag{Name: "jitter", Value: "0s", Usage: "`DURATION` or seconds within which hosts spread their updates where " +
				"their group says nothing"},
			&cli.StringFlag{Name: "start", Value: "1.0.0", Usage: "`VERSION` that the hosts run, where CONFIG names none"},
			&cli.StringFlag{Name: "target", Value: "1.1.0", Usage: "`VERSION` that they update to, where CONFIG names none"},
			&cli.StringFlag{Name: "begin", Value: simulationBegins, Usage: "`TIME` at which the version is set, in the form " + simulationBegins},
			&cli.DurationFlag{Name: "for", Value: 14 * 24 * time.Hour, Usage: "the longest `DURATION` of what is simulated"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`NUMBER` that seeds the random choices"},
			outputFlag("table"),
		},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			if len(words) != 1 {
				return usageErrorf("simulate takes one file, got %q", words)
			}
			scenario, err := scenarioOf(c, words[0])
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			report, err := simulate.Run(ctx, scenario)
			if err != nil {
				return err
			}
			if c.String("output") != "table" {
				return printValue(c, report)
			}
			return writeSimulation(c.App.Writer, scenario, report)
		},
	}
}

func scenarioOf(c *cli.Context, file string) (s simulate.Scenario, err error) {
	s = simulate.Scenario{
		Version: rollout.NewVersion(), Hosts: make(map[string]int), Fails: make(map[string]float64), Lost: make(map[string]float64),
		Poll: c.Duration("poll"), Spread: c.Duration("spread"), Update: c.Duration("update-time"), For: c.Duration("for"), Seed: c.Uint64("seed"),
	}
	list, err := readFile(c, file)
	if err != nil {
		return s, err
	}
	for _, r := range list {
		switch r := r.(type) {
		case *rollout.Config:
			s.Config = r
		case *rollout.Version:
			s.Version = r
		}
	}
	if s.Config == nil {
		return s, fmt.Errorf("%s: there is no %s in it", file, rollout.KindConfig)
	}
	agents := &s.Version.Spec.Agents
	for flag, into := range map[string]*rollout.Semver{"start": &agents.StartVersion, "target": &agents.TargetVersion} {
		if *into == "" {
			if err := into.UnmarshalText([]byte(c.String(flag))); err != nil {
				return s, usageErrorf("--%s: %w", flag, err)
			}
		}
	}
	if s.Config.Spec.Agents.Mode == "" && agents.Mode == "" {
		s.Config.Spec.Agents.Mode = rollout.Enabled // updates are the point of a simulation
	}
	if s.Jitter, err = parseJitter(c.String("jitter")); err != nil {
		return s, usageErrorf("--jitter: %w", err)
	}
	if s.Begin, err = time.Parse(time.RFC3339, c.String("begin")); err != nil {
		return s, usageErrorf("--begin %q is not a time such as %s", c.String("begin"), simulationBegins)
	}
	for _, g := range rollout.NewRollout(s.Config, s.Version, s.Begin).Status.Groups {
		s.Hosts[g.Name] = 10
	}
	if len(s.Hosts) == 0 {
		s.Hosts[""] = 10
	}
	if err := hostFlags(c, &s); err != nil {
		return s, usageError{err}
	}
	if err := s.Check(); err != nil {
		return s, usageError{err}
	}
	return s, nil
}

func hostFlags(c *cli.Context, s *simulate.Scenario) error {
	for _, text := range c.StringSlice("hosts") {
		group, number, named := strings.Cut(text, "=")
		if !named {
			number = group
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("--hosts %q is neither a number nor GROUP=NUMBER", text)
		}
		if named {
			s.Hosts[group] = n
			continue
		}
		for name := range s.Hosts {
			s.Hosts[name] = n
		}
	}
	for flag, rates := range map[string]map[string]float64{"failure-rate": s.Fails, "loss-rate": s.Lost} {
		for _, text := range c.StringSlice(flag) {
			group, part, named := strings.Cut(text, "=")
			if !named {
				group, part = "", group
			}
			digits, percent := strings.CutSuffix(part, "%")
			rate, err := strconv.ParseFloat(digits, 64)
			if err != nil {
				return fmt.Errorf("--%s %q is neither a part such as 5%% nor GROUP=PART", flag, text)
			}
			if percent {
				rate /= 100
			}
			rates[group] = rate
		}
	}
	return nil
}

func writeSimulation(w io.Writer, s simulate.Scenario, r *simulate.Timeline) error {
	t := newTable("TIME (UTC)", "GROUP", "RULE", "WHAT")
	for _, e := range r.Events {
		t.row(e.Time.Format("Mon 2006-01-02 15:04:05"), cmp.Or(e.Group, "-"), string(e.Reason), e.What)
	}
	if err := t.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rules := newTable("RULE", "TIMES", "WHICH SAYS")
	for _, use := range r.Rules {
		rules.row(string(use.Reason), strconv.Itoa(use.Times), use.Rule)
	}
	if err := rules.print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nAfter %s: %s.\n\n", strings.TrimSuffix(r.Ended.Sub(s.Begin).Round(time.Minute).String(), "0s"), r.Why)
	return writeStatus(w, fleetStatus{Overview: adminapi.Overview{Overview: r.End}})
}
