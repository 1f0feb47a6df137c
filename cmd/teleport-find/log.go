package main

import (
	"log/slog"

	"github.com/urfave/cli/v2"

	"teleport-update/internal/console"
	"teleport-update/internal/journald"
)

func newLog(c *cli.Context) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if c.Bool("debug") {
		opts.Level = slog.LevelDebug
	}
	switch format := c.String("log-format"); format {
	case "text":
		if journald.Reads(console.To(c.App.ErrWriter).File()) {
			opts.ReplaceAttr = withoutTime
		}
		return slog.New(slog.NewTextHandler(c.App.ErrWriter, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.App.ErrWriter, opts)), nil
	default:
		return nil, usageErrorf("--log-format %q is neither text nor json", format)
	}
}

// withoutTime leaves out the time of a line, which the journal has.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
