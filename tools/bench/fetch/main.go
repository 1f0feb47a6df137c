// Command fetch is the version store alone, for the benchmark: it fetches one
// release into a new store.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func run() error {
	dir := flag.String("dir", "", "the store")
	url := flag.String("url", "", "the tarball")
	v := flag.String("version", "", "its version")
	flag.Parse()
	source, err := fetch.ParseTemplate(*url)
	if err != nil {
		return err
	}
	client, err := webclient.New(webclient.Options{UserAgent: "bench"})
	if err != nil {
		return err
	}
	f := fetch.New(versions.NewStore(*dir), client, slog.New(slog.NewTextHandler(io.Discard, nil)))
	_, err = f.Fetch(context.Background(), fetch.Request{
		Release: versions.Release{Version: *v, Edition: version.OSS},
		Sources: []*fetch.Template{source},
	})
	return err
}
