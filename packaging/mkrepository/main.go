// Command mkrepository makes and signs the apt and yum repositories of the packages in
// a folder, and adds to existing ones:
//
//	mkrepository --new-key repository.key > repository.asc
//	mkrepository --key repository.key --url https://packages.example.com
//
// The rpms are signed already: mkpackages did that with the same key. mkrepository
// needs apt-ftparchive, createrepo_c, dpkg-deb and rpm, gpg only for a key of gpg's,
// and no network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"teleport-update/packaging/repository"
	"teleport-update/packaging/signing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkrepository:", err)
		os.Exit(1)
	}
}

// command is the parsed command line.
type command struct {
	packages, newKey, userID string
	key                      signing.Key
	previous                 list
	options                  repository.Options
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c command
	flags := flag.NewFlagSet("mkrepository", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.options.Dir, "to", "build/repository", "`folder` of the repository; made, or added to")
	flags.StringVar(&c.packages, "packages", "build/packages", "`folder` with debs and rpms to add; empty: none")
	flags.StringVar(&c.key.File, "key", "", "`file` with the secret key to sign with")
	flags.StringVar(&c.key.GPG, "gpg-key", "", "`fingerprint` of a key of gpg's to sign with, in place of --key")
	flags.StringVar(&c.key.PassphraseFile, "passphrase-file", "",
		"`file` whose first line opens the key of --key, or protects that of --new-key")
	flags.Var(&c.previous, "previous-key",
		"`file` with a public key that has signed what is published; hosts get it too; may be repeated")
	flags.StringVar(&c.options.URL, "url", "", "`URL` where hosts will find the folder: writes their configuration into it")
	flags.DurationVar(&c.options.ValidFor, "valid-for", 0, "`time` for which hosts take the repository, as in 720h (default: for ever)")
	flags.IntVar(&c.options.Keep, "keep", 0, "`number` of versions of each package to keep (default: all)")
	flags.Var((*list)(&c.options.Withdraw), "withdraw", "`version` to publish no longer; may be repeated")
	flags.DurationVar(&c.options.Grace, "grace", 0, "`time` for which files stay that are published no longer (default: a week)")
	flags.StringVar(&c.newKey, "new-key", "", "make a key, write it to this `file`, print its public part, and do nothing else")
	flags.StringVar(&c.userID, "user-id", "teleport-update packages", "whose key --new-key makes, as in \"`NAME` <name@example.com>\"")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("it takes no arguments, got %q", flags.Arg(0))
	}
	var err error
	if c.options.Now, err = now(); err != nil {
		return err
	}
	if c.newKey != "" {
		return c.makeKey(stdout, stderr)
	}
	return c.publish(ctx, stdout)
}

// now is the time of the publication. SOURCE_DATE_EPOCH sets it, as in other tools with
// reproducible output.
func now() (time.Time, error) {
	said := os.Getenv("SOURCE_DATE_EPOCH")
	if said == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(said, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0), nil
}

func (c *command) makeKey(stdout, stderr io.Writer) error {
	passphrase, err := c.key.Passphrase()
	if err != nil {
		return err
	}
	entity, err := signing.NewKey(c.newKey, c.userID, passphrase, c.options.Now)
	if err != nil {
		return err
	}
	public, err := signing.PublicKeys(openpgp.EntityList{entity})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s holds the secret key: keep it, and a copy, where no server is\nfingerprint: %s\n", c.newKey,
		signing.Fingerprint(entity))
	_, err = stdout.Write(public)
	return err
}

func (c *command) publish(ctx context.Context, stdout io.Writer) (err error) {
	if c.options.Signer, err = c.key.Open(ctx, func() time.Time { return c.options.Now }); err != nil {
		return err
	}
	if err := c.apart(); err != nil {
		return err
	}
	for _, file := range c.previous {
		keys, err := signing.ReadKeys(file)
		if err != nil {
			return err
		}
		c.options.Trusted = append(c.options.Trusted, keys...)
	}
	if c.options.Packages, err = packagesIn(c.packages); err != nil {
		return err
	}
	report, err := repository.Build(ctx, c.options)
	if err != nil {
		return err
	}
	return c.print(stdout, report)
}

// packagesIn lists the packages in a folder. Without a folder it returns none.
func packagesIn(folder string) (files []string, err error) {
	if folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".deb" || ext == ".rpm" {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	if files == nil {
		return nil, fmt.Errorf(
			"there are no debs and no rpms in %s: run \"make packages\", or say --packages '' to sign again what is published", folder)
	}
	return files, nil
}

// apart returns an error if the secret key is in the repository, which a server gets.
func (c *command) apart() error {
	if c.key.File == "" {
		return nil
	}
	dir, err := filepath.Abs(c.options.Dir)
	if err != nil {
		return err
	}
	key, err := filepath.Abs(c.key.File)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(dir, key); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("the secret key %s is in the repository, which a server gets: move it elsewhere", c.key.File)
	}
	return nil
}

func (c *command) print(w io.Writer, r *repository.Summary) error {
	var b strings.Builder
	for _, name := range r.Packages {
		how := ""
		if slices.Contains(r.Added, name) {
			how = " (new)"
		}
		fmt.Fprintf(&b, "%s%s\n", name, how)
	}
	for _, name := range r.Dropped {
		fmt.Fprintf(&b, "%s (no longer published)\n", name)
	}
	for _, name := range r.Unpublished {
		fmt.Fprintf(&b, "%s (not published: it is in the folder, but in no signed index)\n", name)
	}
	fmt.Fprintf(&b, "%d packages, %d of them new, are published in %s\n", len(r.Packages), len(r.Added), c.options.Dir)
	key := c.options.Signer.Public()
	fmt.Fprintf(&b, "the key: %s\n", signing.Fingerprint(key))
	if end := signing.Expires(key, c.options.Now); !end.IsZero() {
		fmt.Fprintf(&b, "the key ends on %s: hosts refuse the repository from then on\n", end.UTC().Format(time.RFC3339))
	}
	if !r.ValidUntil.IsZero() {
		fmt.Fprintf(&b, "the repository ends on %s: publish it again before\n", r.ValidUntil.UTC().Format(time.RFC3339))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
