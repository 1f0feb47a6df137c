// Command mkrepository makes and signs the apt and yum repositories of the packages
// in a folder, and adds to those that are there already:
//
//	mkrepository --new-key repository.key > repository.asc
//	mkrepository --key repository.key --url https://packages.example.com
//
// It needs no other program, unless the key is gpg's, and no network.
package main

import (
	"bytes"
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

	"teleport-update/packaging/repository"
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

// command is what the command line says.
type command struct {
	packages, key, gpgKey, passphraseFile, newKey, userID string
	previous                                              list
	options                                               repository.Options
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
	flags.StringVar(&c.key, "key", "", "`file` with the secret key to sign with")
	flags.StringVar(&c.gpgKey, "gpg-key", "", "`fingerprint` of a key of gpg's to sign with, in place of --key")
	flags.StringVar(&c.passphraseFile, "passphrase-file", "", "`file` whose first line opens the key of --key, or protects that of --new-key")
	flags.Var(&c.previous, "previous-key", "`file` with a public key that has signed what is published; hosts get it too; may be repeated")
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

// now is the time of the publication. SOURCE_DATE_EPOCH sets it, as for other tools
// that give the same bytes each time.
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
	passphrase, err := c.passphrase()
	if err != nil {
		return err
	}
	entity, err := repository.NewKey(c.newKey, c.userID, passphrase, c.options.Now)
	if err != nil {
		return err
	}
	public, err := repository.PublicKey(entity)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s holds the secret key: keep it, and a copy, where no server is\nfingerprint: %s\n", c.newKey, repository.Fingerprint(entity))
	_, err = stdout.Write(public)
	return err
}

func (c *command) passphrase() ([]byte, error) {
	if c.passphraseFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.passphraseFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
		return nil, fmt.Errorf("the first line of %s is empty", c.passphraseFile)
	}
	return line, nil
}

func (c *command) publish(ctx context.Context, stdout io.Writer) (err error) {
	if c.options.Signer, err = c.signer(ctx); err != nil {
		return err
	}
	if err := c.apart(); err != nil {
		return err
	}
	for _, file := range c.previous {
		keys, err := repository.ReadKeys(file)
		if err != nil {
			return err
		}
		c.options.Trusted = append(c.options.Trusted, keys...)
	}
	if c.packages != "" {
		entries, err := os.ReadDir(c.packages)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext == ".deb" || ext == ".rpm" {
				c.options.Packages = append(c.options.Packages, filepath.Join(c.packages, e.Name()))
			}
		}
		if len(c.options.Packages) == 0 {
			return fmt.Errorf("there are no debs and no rpms in %s: run \"make packages\", or say --packages '' to sign again what is published", c.packages)
		}
	}
	report, err := repository.Build(c.options)
	if err != nil {
		return err
	}
	return c.print(stdout, report)
}

func (c *command) signer(ctx context.Context) (repository.Signer, error) {
	switch {
	case c.key != "" && c.gpgKey != "":
		return nil, errors.New("--key and --gpg-key name two keys: one signs")
	case c.gpgKey != "":
		return repository.AskGPG(ctx, c.gpgKey, c.options.Now)
	case c.key != "":
		passphrase, err := c.passphrase()
		if err != nil {
			return nil, err
		}
		return repository.OpenKey(c.key, passphrase, func() time.Time { return c.options.Now })
	}
	return nil, errors.New("which key signs? Say --key FILE or --gpg-key FINGERPRINT; --new-key FILE makes one")
}

// apart keeps the secret key out of what a server gets.
func (c *command) apart() error {
	if c.key == "" {
		return nil
	}
	dir, err := filepath.Abs(c.options.Dir)
	if err != nil {
		return err
	}
	key, err := filepath.Abs(c.key)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(dir, key); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("the secret key %s is in the repository, which a server gets: move it elsewhere", c.key)
	}
	return nil
}

func (c *command) print(w io.Writer, r *repository.Report) error {
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
	fmt.Fprintf(&b, "the key: %s\n", repository.Fingerprint(key))
	if end := repository.Expires(key, c.options.Now); !end.IsZero() {
		fmt.Fprintf(&b, "the key ends on %s: hosts refuse the repository from then on\n", end.UTC().Format(time.RFC3339))
	}
	if !r.ValidUntil.IsZero() {
		fmt.Fprintf(&b, "the repository ends on %s: publish it again before\n", r.ValidUntil.UTC().Format(time.RFC3339))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
