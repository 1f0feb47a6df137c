package main

import (
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/internal/console"
)

// watch begins to tell on stderr how far long work is, which usually takes so long.
func watch(c *cli.Context, what string, usual time.Duration) *console.Progress {
	return console.To(c.App.ErrWriter).Watch(what, usual)
}

// bytesPerSecond is how much of a store an ordinary machine copies, checks and syncs in a second.
const bytesPerSecond = 20 << 20

// fileTime returns how long a copy of a store's file usually takes, 0 if path is not a file.
func fileTime(path string) time.Duration {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return time.Duration(info.Size()/bytesPerSecond) * time.Second
}
