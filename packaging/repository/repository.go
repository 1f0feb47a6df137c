// Package repository makes the apt and yum repositories of this project's packages, and
// signs them. apt-ftparchive and createrepo_c write the indexes, dpkg-deb and rpm read
// packages, and rpmkeys checks that rpms are whole and signed by the key: rpms were
// signed when they were built.
//
//	teleport-update.asc              the public key, and earlier ones
//	teleport-update.sources, .repo   the configuration of hosts, if the address is known
//	apt/pool/                        debs
//	apt/dists/stable/                InRelease, Release, Release.gpg
//	apt/dists/stable/main/binary-A/  Packages, Packages.gz, and both below by-hash/SHA256
//	yum/A/                           rpms, each signed itself
//	yum/A/repodata/                  repomd.xml, repomd.xml.asc, and the files that these name
//
// The folder has everything: there is no database and no secret. Any file server may
// serve it.
//
// # Trust
//
// An intruder on a server may have changed the folder. So a file counts as published
// only if an index with a trusted key's signature names it, with its digest. Other
// files are neither published nor signed, and go after a while.
//
// # Writing
//
// At any moment, and after any crash, clients see either the old repository or the new
// one, whole: see plan. A published package never changes. A file that is no longer
// named stays for a time of grace, since clients with the old index still ask for it.
package repository

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/gofrs/flock"

	"teleport-update/internal/durable"
	"teleport-update/packaging/signing"
)

// Options are the settings of a publication.
type Options struct {
	// Dir is the repository. It is made if it is missing.
	Dir string
	// Packages are the files to add to the published ones.
	Packages []string
	Signer   signing.Signer
	// Trusted are further keys that may have signed the published indexes. Hosts get
	// them too.
	Trusted openpgp.EntityList
	Now     time.Time
	// ValidFor is how long hosts accept the repository; 0: for ever. It has to be made
	// again before that, even without new packages.
	ValidFor time.Duration
	// Keep is how many versions of each package stay; 0: all.
	Keep int
	// Withdraw are versions that shall no longer be published.
	Withdraw []string
	// URL is the folder's address for hosts. If it is empty, the files for their configuration are not written.
	URL string
	// Grace is how long a file stays after it is no longer named. The zero value means
	// a week.
	Grace time.Duration
}

// Summary describes a publication.
type Summary struct {
	Date       time.Time
	ValidUntil time.Time // zero: for ever
	Packages   []string  // all published packages, by path
	Added      []string  // of these, the new ones
	Dropped    []string  // published before, and not now
	// Unpublished are packages in the folder that no signed index names.
	Unpublished []string
}

func newSummary(packages []*pkg, before *published, date time.Time) *Summary {
	r := &Summary{Date: date}
	for _, p := range packages {
		r.Packages = append(r.Packages, p.path)
		if before.packages[p.path] == "" {
			r.Added = append(r.Added, p.path)
		}
	}
	for name := range before.packages {
		if !slices.Contains(r.Packages, name) {
			r.Dropped = append(r.Dropped, name)
		}
	}
	slices.Sort(r.Dropped)
	return r
}

// Build publishes the packages. After an error, hosts see the old repository, or all of
// the new one.
func Build(ctx context.Context, o Options) (*Summary, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := checkPrograms(); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(o.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	tree, err := readTree(o.Dir)
	if err != nil {
		return nil, err
	}
	before, err := readPublished(o.Dir, o.keys(), o.Now)
	if err != nil {
		return nil, err
	}
	date, err := o.date(before)
	if err != nil {
		return nil, err
	}
	s, err := newStage(ctx, o.Dir, o.keys())
	if err != nil {
		return nil, err
	}
	defer s.remove()
	packages, err := o.packages(ctx, s, before)
	if err != nil {
		return nil, err
	}
	summary := newSummary(packages, before, date)
	if o.ValidFor > 0 {
		summary.ValidUntil = date.Add(o.ValidFor)
	}
	next, err := o.content(ctx, s, packages, date)
	if err != nil {
		return nil, err
	}
	for _, f := range tree.packages() {
		if !before.names(f) && !next.names(f) {
			summary.Unpublished = append(summary.Unpublished, f)
		}
	}
	return summary, carryOut(o.Dir, plan(tree, before, next, o.Now, o.Grace), o.Now)
}

const defaultGrace = 7 * 24 * time.Hour

func (o *Options) check() error {
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	o.Now = o.Now.UTC().Truncate(time.Second)
	if o.Keep < 0 {
		return fmt.Errorf("%d versions cannot be kept", o.Keep)
	}
	if o.ValidFor < 0 || o.ValidFor > 0 && o.ValidFor < time.Minute {
		return fmt.Errorf("a repository cannot be valid for %v", o.ValidFor)
	}
	if o.URL != "" {
		u, err := url.Parse(o.URL)
		if err != nil || !ofFolder(u) {
			return fmt.Errorf("URL %q is not one of a folder: write it as in https://packages.example.com", o.URL)
		}
	}
	o.Signer = signing.Checked(o.Signer, o.Now)
	return nil
}

// ofFolder reports whether a URL can be the URL of a folder.
func ofFolder(u *url.URL) bool {
	web := u.Scheme == "https" || u.Scheme == "http"
	bare := u.User == nil && u.RawQuery == "" && u.Fragment == ""
	return web && bare && u.Host != ""
}

func (o *Options) keys() openpgp.EntityList {
	keys := openpgp.EntityList{o.Signer.Public()}
	for _, k := range o.Trusted {
		if k.PrimaryKey.KeyId != o.Signer.Public().PrimaryKey.KeyId {
			keys = append(keys, k)
		}
	}
	return keys
}

// clockTolerance is how far in the future a Release may be for apt.
const clockTolerance = 10 * time.Second

// date returns a time that grows with each publication: apt silently ignores a Release
// that is older than the one it has.
func (o *Options) date(before *published) (time.Time, error) {
	if before.date.Sub(o.Now) >= clockTolerance {
		was, is := before.date.UTC().Format(time.RFC3339), o.Now.Format(time.RFC3339)
		return time.Time{}, fmt.Errorf(
			"the repository was published at %s, and the clock here says %s: hosts would ignore what is older; set the clock", was, is)
	}
	if !before.date.Before(o.Now) {
		return before.date.Add(time.Second), nil
	}
	return o.Now, nil
}

// lock keeps a second run out until this one ends.
func lock(dir string) (unlock func(), err error) {
	l := flock.New(filepath.Join(dir, ".lock"), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("%s is being written by another run: wait for it to end", dir)
	}
	return func() { l.Unlock() }, nil
}
