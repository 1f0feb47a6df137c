package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server/files"
	"teleport-update/internal/console"
	"teleport-update/internal/durable"
	releases "teleport-update/internal/version"
	"teleport-update/internal/webclient"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

func mirrorCommand() *cli.Command {
	env := func(name string) []string { return []string{"TELEPORT_FIND_" + name} }
	return &cli.Command{
		Name:  "mirror",
		Usage: "fill a folder with releases, to serve them or to carry them to hosts without a network",
		UsageText: "teleport-find mirror --to DIR [--edition E]… [--arch A]… [--template URL]… [--ca-file FILE] [--dry-run] " +
			"[-o table|json|yaml] {VERSION… | --newest N}\n" +
			"teleport-find mirror --to DIR --prune [--keep N] [--dry-run] [VERSION…]\n" +
			"teleport-find mirror --check {--to DIR | FILE…}",
		Description: `Downloads the tarball of each version, edition and architecture with its checksum and, where the source has one, its
signature (.sig), and puts them into DIR under the names that "teleport-find serve --releases DIR" serves. A tarball gets ` +
			`its name only when it is whole and
matches its checksum. A tarball that is there and matches is not downloaded again; the next run continues a download
that was interrupted. HTTP proxies are taken from the environment (HTTPS_PROXY, NO_PROXY).

With --prune, the versions that the command does not name are removed from DIR, once those that it names are complete. Versions
that the server on this machine names to hosts, or that hosts have reported to it, stay. If the server cannot tell, nothing is removed.

With --check nothing is downloaded. It reads the tarballs FILE…, or all in DIR, and prints for each that it is ok, or every
rule by which hosts would refuse it. The exit code is 1 if hosts would refuse one.

With -o json each file is a line, printed as soon as it is done.

Hosts can also read the folder itself, from media or a share:

   teleport-update enable --proxy ADDR --template 'file:///DIR/` + files.NameTemplate + `'`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", EnvVars: env("MIRROR_TO"), Usage: "`DIR` to fill; made if it is not there"},
			&cli.BoolFlag{Name: "check", Usage: "download nothing; say whether hosts would take the tarballs that are there"},
			&cli.GenericFlag{Name: "template", EnvVars: env("MIRROR_TEMPLATE"), Value: new(lines), Usage: "`URL` template of the " +
				"source, may be repeated, in the environment one a line: tried in order (default: Teleport's own)"},
			&cli.IntFlag{Name: "newest", Usage: "besides the versions that are named, the newest `N` of a template that is a folder " +
				"(file:///DIR/…)"},
			&cli.BoolFlag{Name: "prune", Usage: "then remove the versions from DIR that are not named, not kept by --keep, and not " +
				"used by the server's hosts"},
			&cli.IntFlag{Name: "keep", Usage: "with --prune, keep the newest `N` versions of DIR too"},
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would be downloaded and removed; change nothing"},
			outputFlag("table"), adminSocketFlag(),
			&cli.StringSliceFlag{Name: "edition", EnvVars: env("MIRROR_EDITION"), Value: cli.NewStringSlice(string(releases.OSS)),
				Usage: "`oss|enterprise|enterprise-fips`, may be repeated"},
			&cli.StringSliceFlag{Name: "arch", EnvVars: env("MIRROR_ARCH"), Value: cli.NewStringSlice(runtime.GOARCH),
				Usage: "`amd64|arm64|…` of the hosts, may be repeated"},
			&cli.StringSliceFlag{Name: "release-key", EnvVars: env("MIRROR_RELEASE_KEY"), Usage: "`FILE` with a public key, may be " +
				"repeated: one of them must have signed each tarball that is downloaded or checked"},
			&cli.StringFlag{Name: "ca-file", EnvVars: env("CA_FILE"), TakesFile: true, Usage: "PEM `FILE` of further authorities to trust"},
		},
		Action: mirror,
	}
}

// hostOS is the only system that the updater runs on.
const hostOS = "linux"

var archName = regexp.MustCompile(`^[a-z0-9_]{2,20}$`)

// wanted is one tarball for the mirror.
type wanted struct {
	release versions.Release
	arch    string
}

func mirror(c *cli.Context) error {
	log, err := newLog(c)
	if err != nil {
		return err
	}
	words, err := wordsOf(c)
	if err != nil {
		return err
	}
	if c.Bool("check") {
		return checkMirror(c, log, words)
	}
	dir := c.String("to")
	if dir == "" {
		return usageErrorf("--to says which folder to fill")
	}
	sources, err := mirrorSources(c)
	if err != nil {
		return usageError{err}
	}
	if err := checkPruneFlags(c, words); err != nil {
		return err
	}
	if c.IsSet("newest") {
		newest, err := newestOf(*c.Generic("template").(*lines), c.Int("newest"))
		if err != nil {
			return err
		}
		words = append(words, newest...)
	}
	if c.Bool("prune") && len(words) == 0 {
		return prune(c, dir, words, c.Bool("dry-run"))
	}
	list, err := wantedBy(c, words)
	if err != nil {
		return usageError{err}
	}
	if c.Bool("dry-run") {
		return wouldMirror(c, dir, list, words)
	}
	fetcher, err := mirrorFetcher(c, log)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := durable.CleanTemp(dir); err != nil {
		return err
	}
	if err := fillMirror(c, log, fetcher, dir, sources, list); err != nil {
		return err
	}
	if c.Bool("prune") {
		return prune(c, dir, words, false)
	}
	return nil
}

// mirrorFetcher returns a fetcher with the authorities and release keys from the flags.
func mirrorFetcher(c *cli.Context, log *slog.Logger) (*fetch.Fetcher, error) {
	client, err := webclient.New(webclient.Options{CAFile: c.String("ca-file"), Trust: "`teleport-find mirror --ca-file FILE`",
		UserAgent: "teleport-find/" + version})
	if err != nil {
		return nil, err
	}
	fetcher := fetch.New(nil, client, log) // nothing is unpacked
	keys, err := releaseKeys(c)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		fetcher.Verifier = signedBy(keys)
	}
	if screen := console.To(c.App.ErrWriter); screen.Terminal() {
		fetcher.Progress = fetch.NewBar(screen)
	}
	return fetcher, nil
}

// fillMirror saves the tarballs of a list in the folder. If one cannot be saved, it goes on
// with the others.
func fillMirror(c *cli.Context, log *slog.Logger, fetcher *fetch.Fetcher, dir string, sources []*fetch.Template, list []wanted) error {
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var failed []error
	for _, w := range list {
		name := files.Name(w.release.Version, w.release.Edition, hostOS, w.arch)
		var from []*fetch.Template
		for _, t := range sources {
			from = append(from, t.For(hostOS, w.arch))
		}
		saved, err := fetcher.Save(ctx, fetch.SaveRequest{Release: w.release, Sources: from, Path: filepath.Join(dir, name)})
		if ctx.Err() != nil {
			return errors.New("interrupted; the same command goes on where this one ended")
		}
		if err != nil {
			log.Error("not mirrored", "file", name, "error", err)
			failed = append(failed, err)
			continue
		}
		how := "saved"
		if saved.Present {
			how = "was there"
		}
		if err := printItem(c, mirrored{File: name, SHA256: saved.SHA256, Is: how}, saved.SHA256+"  "+name+"  "+how); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d tarballs are missing from %s, the others are whole; the first error: %w",
			len(failed), len(list), dir, failed[0])
	}
	return nil
}

// wouldMirror prints what mirror would do. It looks at names alone.
func wouldMirror(c *cli.Context, dir string, list []wanted, words []string) error {
	for _, w := range list {
		name, how := files.Name(w.release.Version, w.release.Edition, hostOS, w.arch), "is there"
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			how = "would be saved"
		}
		if err := printItem(c, mirrored{File: name, Is: how}, name+"  "+how); err != nil {
			return err
		}
	}
	if c.Bool("prune") {
		return prune(c, dir, words, true)
	}
	return nil
}

// mirrored is the result for a file.
type mirrored struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256,omitempty"`
	// saved, was there, removed, ok, refused; in a dry run would be saved, is there, would be removed
	Is       string   `json:"is"`
	Problems []string `json:"problems,omitempty"` // why hosts would refuse it
}

// wantedBy returns every combination of versions, editions and architectures from the command line, once.
func wantedBy(c *cli.Context, words []string) (list []wanted, err error) {
	if len(words) == 0 {
		return nil, errors.New("which versions? Name them after the flags")
	}
	seen := map[wanted]bool{}
	for _, v := range words {
		v, err := releases.Parse(v)
		if err != nil {
			return nil, err
		}
		for _, e := range c.StringSlice("edition") {
			edition, err := releases.ParseEdition(e)
			if err != nil {
				return nil, fmt.Errorf("--edition: %w", err)
			}
			for _, arch := range c.StringSlice("arch") {
				if !archName.MatchString(arch) {
					return nil, fmt.Errorf("--arch %q is not an architecture as Go names them, such as amd64", arch)
				}
				w := wanted{versions.Release{Version: v, Edition: edition}, arch}
				if !seen[w] {
					seen[w] = true
					list = append(list, w)
				}
			}
		}
	}
	return list, nil
}

func mirrorSources(c *cli.Context) (sources []*fetch.Template, err error) {
	texts := *c.Generic("template").(*lines)
	if len(texts) == 0 {
		texts = []string{fetch.DefaultTemplate}
	}
	for _, text := range texts {
		t, err := fetch.ParseTemplate(text)
		if err != nil {
			return nil, fmt.Errorf("--template: %w", err)
		}
		sources = append(sources, t)
	}
	return sources, nil
}
