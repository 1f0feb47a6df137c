package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "print how far the rollout has come, and what happens next",
		UsageText: "teleport-find status [GROUP | --group GROUP] [--watch] [-o table|json|yaml] [--admin-socket PATH]",
		Description: `Begins with one word and one sentence: what happens next and when, or what the rollout waits for. The commands that move
it follow, then the groups, the versions that their hosts run, and the hosts that failed with their last error.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "group", Usage: "only the group `GROUP`, as the word does"},
			&cli.BoolFlag{Name: "watch", Usage: "print it again whenever it has changed, until interrupted"},
			&cli.DurationFlag{Name: "every", Value: 5 * time.Second, Usage: "how often --watch looks, a `DURATION`"},
			outputFlag("table"), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			if len(words) > 1 {
				return usageErrorf("status takes one group, got %q", words)
			}
			group := c.String("group")
			if len(words) == 1 && group != "" && group != words[0] {
				return usageErrorf("status takes one group, got %q and --group %q", words[0], group)
			}
			if len(words) == 1 {
				group = words[0]
			}
			if !c.Bool("watch") {
				s, err := askStatus(c.Context, newAdminClient(c), group)
				if err != nil {
					return err
				}
				return printStatus(c, s)
			}
			if c.Duration("every") <= 0 {
				return usageErrorf("--every %s is not a duration above 0", c.Duration("every"))
			}
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return watchStatus(ctx, c, group)
		},
	}
}

// fleetStatus is the output of "status".
type fleetStatus struct {
	adminapi.Overview
	FailedHosts []failedHost `json:"failed_hosts,omitempty"`
	// MoreFailed is the number of failed hosts beyond FailedHosts.
	MoreFailed int `json:"more_failed_hosts,omitempty"`
}

// failedHost is a host that is failed; see adminapi.HostState.
type failedHost struct {
	ID       string    `json:"id"`
	Hostname string    `json:"hostname,omitempty"`
	Group    string    `json:"group,omitempty"`
	Version  string    `json:"version,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	Error    string    `json:"error"`
}

// maxFailedHosts is how many failed hosts are shown: a whole fleet may have failed.
const maxFailedHosts = 20

func askStatus(ctx context.Context, client *adminClient, group string) (s fleetStatus, err error) {
	if err := client.ask(ctx, http.MethodGet, "/v1/overview", nil, &s.Overview); err != nil {
		return s, err
	}
	query := url.Values{"state": {string(adminapi.HostFailed)}, "limit": {fmt.Sprint(maxFailedHosts)}}
	if group != "" {
		query.Set("group", group)
		var names []string
		for _, g := range s.Groups {
			names = append(names, g.Name)
		}
		at := slices.Index(names, group)
		if at < 0 {
			return s, fmt.Errorf("the rollout has no group %q (there are: %s)", group, strings.Join(names, ", "))
		}
		s.Groups = s.Groups[at : at+1]
	}
	var hosts adminapi.Hosts
	if err := client.ask(ctx, http.MethodGet, "/v1/hosts?"+query.Encode(), nil, &hosts); err == nil {
		for _, h := range hosts.Hosts {
			failed := failedHost{ID: h.ID, Hostname: h.Hostname, Group: h.Group, Version: h.Version}
			if h.Failed != nil {
				failed.Time, failed.Error = h.Failed.Time, h.Failed.Error
			}
			s.FailedHosts = append(s.FailedHosts, failed)
		}
		s.MoreFailed = max(0, hosts.Total-len(hosts.Hosts))
		return s, nil
	}
	// Without the list of hosts, the engine's examples have to do.
	for _, g := range s.Groups {
		for _, p := range g.Problems {
			s.FailedHosts = append(s.FailedHosts, failedHost{ID: p.ID, Hostname: p.Hostname, Group: g.Name, Error: p.Error})
		}
	}
	return s, nil
}

func printStatus(c *cli.Context, s fleetStatus) error {
	if c.String("output") != "table" {
		return printValue(c, s)
	}
	return writeStatus(c.App.Writer, s)
}

// watchStatus prints the status whenever it changes. If the server is away for a while,
// it waits: people who watch a rollout do not want to start over.
func watchStatus(ctx context.Context, c *cli.Context, group string) error {
	client := newAdminClient(c)
	ticker := time.NewTicker(c.Duration("every"))
	defer ticker.Stop()
	out := console.To(c.App.Writer)
	clear := out.Terminal() && c.String("output") == "table"
	var before []byte
	for {
		s, err := askStatus(ctx, client, group)
		if ctx.Err() != nil {
			return nil
		}
		now := []byte(fmt.Sprint(err))
		if err == nil {
			seen := s
			seen.Server.LastTick, seen.Server.SnapshotAge = time.Time{}, 0
			if now, err = json.Marshal(seen); err != nil {
				return err
			}
		}
		if !bytes.Equal(before, now) {
			switch {
			case clear:
				out.Clear()
			case before != nil && c.String("output") == "table":
				fmt.Fprintln(c.App.Writer)
			case before != nil && c.String("output") == "yaml":
				fmt.Fprintln(c.App.Writer, "---")
			}
			if err != nil {
				complain(c.App.ErrWriter, err)
			} else if err := printStatus(c, s); err != nil {
				return err
			}
			before = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
