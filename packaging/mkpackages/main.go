// Command mkpackages builds the packages of the present checkout.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"teleport-update/internal/console"
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

// usual is how long both programs take on two processors that have not compiled them before.
const usual = 3 * time.Minute

func run(ctx context.Context, o packaging.Options) error {
	version, date, err := packaging.Commit(ctx, o.Module)
	if err != nil {
		return err
	}
	if o.Version == "" {
		o.Version = version
	}
	o.Date = date
	fmt.Printf("packages of %s into %s: %s; usually %.0f min\n", o.Version, o.Out, strings.Join(o.Formats, ", "), usual.Minutes())
	progress := console.To(os.Stdout).Watch("begin", usual)
	o.Step = func(what string, done, all int64) {
		progress.Step(what)
		progress.Done(done, all)
	}
	paths, err := packaging.Build(ctx, o)
	progress.End()
	for _, path := range paths {
		fmt.Println(path)
	}
	return err
}
