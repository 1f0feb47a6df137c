// Command mkpackages builds the packages of the present checkout.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"teleport-update/packaging"
)

func main() {
	o := packaging.Options{Module: "."}
	flag.StringVar(&o.Out, "out", "build/packages", "`folder` for the packages")
	flag.StringVar(&o.Version, "version", "", "`version` without a v (default: the commit's)")
	arch := flag.String("arch", "amd64,arm64", "`list` of architectures")
	formats := flag.String("formats", "deb,rpm,program", "`list` of formats: program is the bare one")
	flag.Parse()
	o.Arch, o.Formats = strings.Split(*arch, ","), strings.Split(*formats, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "mkpackages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o packaging.Options) error {
	version, date, err := packaging.Commit(ctx, o.Module)
	if err != nil {
		return err
	}
	if o.Version == "" {
		o.Version = version
	}
	o.Date = date
	paths, err := packaging.Build(ctx, o)
	for _, path := range paths {
		fmt.Println(path)
	}
	return err
}
