package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/channels"
	"teleport-update/internal/durable"
	"teleport-update/internal/webclient"
)

func newChannels(c *cli.Context, groups channels.GroupSource, log *slog.Logger) (*channels.Channels, error) {
	client, err := webclient.New(webclient.Options{CAFile: c.String("channels-ca-file"),
		Trust: "`teleport-find serve --channels-ca-file FILE`", UserAgent: "teleport-find/" + version})
	if err != nil {
		return nil, err
	}
	return channels.NewChannels(channels.ChannelsOptions{File: c.String("channels"), Groups: groups, HTTP: client,
		Clock: now, Log: log})
}

func channelsCommand() *cli.Command {
	return &cli.Command{
		Name:      "channels",
		Usage:     "list what updaters of RFD 0109 are told",
		UsageText: "teleport-find channels [--export DIR [--dry-run]] [-o table|json|yaml] [--admin-socket PATH]",
		Description: `Updaters of RFD 0109, such as teleport-ent-updater and the one for Kubernetes, ask for a channel: /v1/CHANNEL/version and
/v1/CHANNEL/critical, or the same below /v1/webapi/automaticupgrades/channel/. The file of "serve --channels" says which there are:

   stable/cloud: {version: 15.1.1, critical: false}
   edge: {group: dev}
   upstream: {forward: https://updates.example.com/v1/stable/cloud}

A channel that follows a group has no version unless its hosts are told to update to it: none before the turn of the group,
while updates are suspended or disabled, while the group is halted, and while only some of its hosts have their turn. An ` +
			`updater that asks then gets 404 and does nothing. A forwarded one is
asked once a minute, and its last good answer stays. The channel default follows the hosts of no group, if the file says nothing else.

--export writes DIR/v1/CHANNEL/version and critical, and the same below DIR/v1/webapi/automaticupgrades/channel/, as ` +
			`the server serves
them: a web server or a CDN that serves DIR answers the same updaters, also while this server is away. Each file is replaced in
one step. Where a channel has no version now, the file is removed. Channels that are gone are left as they are.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "export", Usage: "`DIR` to write the channels into, as files for any web server"},
			&cli.BoolFlag{Name: "dry-run", Usage: "say what --export would change, and change nothing"},
			outputFlag("table"), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			if dir := c.String("export"); dir != "" {
				return exportChannels(c, dir)
			}
			if c.Bool("dry-run") {
				return usageErrorf("--dry-run is for --export")
			}
			return show(c, "/v1/channels", writeChannels)
		},
	}
}

func writeChannels(w io.Writer, all adminapi.Channels) error {
	t := newTable("CHANNEL", "VERSION", "CRITICAL", "FROM", "REMARK")
	for _, one := range all.Channels {
		note := ""
		if one.Error != "" {
			note = fmt.Sprintf("the answer is %s old: %s", (time.Duration(one.Age) * time.Second), firstLine(one.Error))
		}
		t.row(one.Name, cmp.Or(one.Version, "none"), yesNo(one.Critical), one.Source, note)
	}
	return t.print(w)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func exportChannels(c *cli.Context, dir string) error {
	var all adminapi.Channels
	if err := newAdminClient(c).ask(c.Context, http.MethodGet, "/v1/channels", nil, &all); err != nil {
		return err
	}
	written := []exported{}
	for _, one := range all.Channels {
		if err := channels.CheckChannelName(one.Name); err != nil {
			return err
		}
		for _, below := range []string{"/v1/", channels.ChannelPath} {
			did, err := exportChannel(filepath.Join(dir, below, one.Name), one, c.Bool("dry-run"))
			written = append(written, did...)
			if err != nil {
				return err
			}
		}
	}
	return printAs(c, written, func(w io.Writer, written []exported) error {
		t := newTable("FILE", "CONTENT", "")
		for _, f := range written {
			did := f.Change
			if c.Bool("dry-run") && did != "unchanged" {
				did = "would be " + did
			}
			t.row(f.File, f.Content, did)
		}
		return t.print(w)
	})
}

// exported is the result for a file.
type exported struct {
	File    string `json:"file"`
	Content string `json:"content,omitempty"`
	Change  string `json:"change"`
}

// exportChannel writes the two files of a channel. An updater that reads them between the two writes must not
// take a version for critical that is not. So a version is written before it becomes critical, and critical is
// removed before another version is written.
func exportChannel(dir string, one adminapi.Channel, dryRun bool) (done []exported, err error) {
	files := []exported{{File: filepath.Join(dir, "version"), Content: one.Version}, {File: filepath.Join(dir, "critical"),
		Content: yesNo(one.Critical)}}
	if !one.Critical {
		files[0], files[1] = files[1], files[0]
	}
	if !dryRun {
		if err := durable.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		before, err := os.ReadFile(f.File)
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing {
			return done, err
		}
		err = nil
		switch {
		case f.Content == "" && missing, !missing && string(before) == f.Content:
			f.Change = string(adminapi.Unchanged)
		case f.Content == "":
			f.Change = string(adminapi.Removed)
			if !dryRun {
				err = durable.Remove(f.File)
			}
		default:
			f.Change = "written"
			if !dryRun {
				err = durable.WriteFile(f.File, []byte(f.Content), 0o644)
			}
		}
		if err != nil {
			return done, err
		}
		done = append(done, f)
	}
	return done, nil
}
