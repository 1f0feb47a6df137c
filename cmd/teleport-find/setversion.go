package main

import (
	"encoding"
	"fmt"
	"net/http"
	"net/url"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

func setVersionCommand() *cli.Command {
	return &cli.Command{
		Name:  "set-version",
		Usage: "say which version hosts are to run",
		UsageText: "teleport-find set-version VERSION [--schedule regular|critical|immediate] [--start VERSION] [--reason TEXT] " +
			"[--dry-run] [-o table|json|yaml]\n" +
			"teleport-find set-version --newest [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: changesUsage + `

It sets spec.agents of the resource autoupdate_version. Without --schedule the version goes from group to group, if
autoupdate_config has groups, and is for every host at once if it has none; a schedule is for one version, and is not
kept for the next. Without --start, a version that goes from group to group starts from the one that most hosts of the
groups run or, if nobody reports, from the last one that came to all groups: this is what new hosts install before the
turn of their group, and what a rollback goes back to. Hosts that have the agent update only when updates are enabled:
see "teleport-find mode".

--newest removes the version and its rollout: the server answers as with a new store.`,
		OnUsageError: onUsageError,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "schedule", Usage: "`regular|critical|immediate`: group by group, group by group for what cannot " +
				"wait, or every host at once"},
			&cli.StringFlag{Name: "start", Usage: "`VERSION` that new hosts install before the turn of their group"},
			&cli.BoolFlag{Name: "newest", Usage: "set no version: hosts are told the newest release that there was when the server started"},
		}, changeFlags()...),
		Action: setVersion,
	}
}

func setVersion(c *cli.Context) error {
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
	if err := given(c, "start", &start); err != nil {
		return err
	}
	var schedule rollout.Schedule
	if err := given(c, "schedule", &schedule); err != nil {
		return err
	}
	if schedule == "" {
		if schedule, err = usualSchedule(c); err != nil {
			return err
		}
	}
	unsure := ""
	return changeResource(c, func() rollout.Resource { return rollout.NewVersion() }, func(r rollout.Resource) error {
		before := r.(*rollout.Version)
		agents := &before.Spec.Agents
		unsure = ""
		// A version for every host at once has no start version for its groups yet.
		begins := target != agents.TargetVersion || agents.Schedule == rollout.Immediate
		if start != "" {
			agents.StartVersion = start
		} else if schedule != rollout.Immediate && begins {
			if agents.StartVersion, unsure, err = lastRun(c, before); err != nil {
				return err
			}
		}
		agents.TargetVersion, agents.Schedule = target, schedule
		return nil
	}, func(result *adminapi.Result) {
		if unsure != "" {
			result.Warnings = append(result.Warnings, unsure)
		}
	})
}

// given returns the value of a flag, if it is set.
func given(c *cli.Context, flag string, into encoding.TextUnmarshaler) error {
	s := c.String(flag)
	if s == "" {
		return nil
	}
	if err := into.UnmarshalText([]byte(s)); err != nil {
		return usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return nil
}

// lastRun returns the start version for the next rollout: the version that most hosts run or, if nobody reports, the last one
// that came to all groups. If it is a guess, unsure is a warning that says so.
func lastRun(c *cli.Context, before *rollout.Version) (start rollout.Semver, unsure string, err error) {
	agents, client := before.Spec.Agents, newAdminClient(c)
	var now adminapi.Overview
	if err := client.ask(c.Context, http.MethodGet, "/v1/overview", nil, &now); err != nil {
		return "", "", err
	}
	if most, _, _ := rollout.MostRun(now.Groups); most != "" {
		return most, "", nil
	}
	// Before the first rollout, and after one without groups, hosts are in no group.
	var all adminapi.Counts
	if err := client.ask(c.Context, http.MethodGet, "/v1/counts", nil, &all); err != nil && !refused(err, http.StatusConflict) {
		return "", "", err
	}
	if most, _ := rollout.MostOf(all.Versions); most != "" {
		return rollout.Semver(most), "", nil
	}
	if start, err = lastDone(c, before); err != nil || start == "" {
		return start, "", err // the server warns that new hosts install the target
	}
	came := "the start version of the rollout before"
	if start == agents.TargetVersion {
		came = "the last one that came to all groups"
	}
	return start, fmt.Sprintf("no host reports what it runs: the start version is %s, %s; name another one by --start if hosts run that",
		start, came), nil
}

// lastDone returns the last version that came to all groups, or "".
func lastDone(c *cli.Context, before *rollout.Version) (rollout.Semver, error) {
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

// usualSchedule returns regular if there are groups. Without groups, no host would ever
// update by it.
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

// forgetVersion removes the version, so that the newest release counts again.
func forgetVersion(c *cli.Context, words []string) error {
	if len(words) > 0 || c.String("schedule") != "" || c.String("start") != "" {
		return usageErrorf("set-version takes a version, or --newest alone")
	}
	var result adminapi.Result
	path := fmt.Sprintf("/v1/resources/%s?dry_run=%t&reason=%s", rollout.KindVersion, c.Bool("dry-run"), url.QueryEscape(c.String("reason")))
	if err := newAdminClient(c).ask(c.Context, http.MethodDelete, path, nil, &result); err != nil {
		return err
	}
	return printResult(c, result)
}
