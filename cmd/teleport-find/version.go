package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "0.0.0-dev"

func printVersion(c *cli.Context) error {
	if format := c.String("output"); format == "json" || format == "yaml" {
		return printValue(c, map[string]string{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
	}
	_, err := fmt.Fprintf(c.App.Writer, "teleport-find %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
