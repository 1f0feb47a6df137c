package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"teleport-update/internal/version"
)

// clockSkew is how far in the future the time of a backup may be: a clock may have been set back a little since.
const clockSkew = 5 * time.Minute

// Want says which backup is expected.
type Want struct {
	Proxy   string // the cluster's address, in any spelling
	Version string // without "v"
	Edition version.Edition
	// MaxAge is how old the backup may be; 0 for any age. RFD 0169 §Downgrades:
	// less than the life of the certificates in it.
	MaxAge time.Duration
	// Now is the time that age is measured by.
	Now time.Time
	// Live is the agent's current database, if there is one. A backup from another address belongs to the same cluster if both databases name
	// the same host and cluster: a proxy may have got another name. A backup that names another host never matches.
	Live *Database
}

// Check compares the backup in dir with the wanted one, and checks that it is complete and
// undamaged (RFD 0169 §Downgrades, step 1). It returns nil, an *InvalidError with the first
// reason against the backup, or another error if the backup could not be checked.
// It reads the whole database, which takes a while if the database is large.
func Check(ctx context.Context, dir string, w Want) (err error) {
	defer contain(&err)
	r, err := readMetadata(dir)
	if err != nil {
		return err
	}
	then, now, err := w.identities(ctx, dir, r)
	if err != nil {
		return err
	}
	sameHost := then.name == now.name && then.ofHost
	err = w.matches(dir, r.Meta)
	if other, ok := errors.AsType[*InvalidError](err); ok && other.Reason == OtherProxy && sameHost {
		r.Proxy = w.Proxy
		err = w.matches(dir, r.Meta)
	}
	if err == nil && w.Live != nil && (then.name != "" || then.none) {
		err = w.Live.checkIdentity(dir, then, now)
	}
	if err != nil {
		return err
	}
	_, err = r.checkFile(ctx, dir)
	return err
}

// identities returns the identities of the backup and of the live database, see identitiesWith.
func (w Want) identities(ctx context.Context, dir string, r metadata) (then, now identified, err error) {
	if w.Live == nil {
		return then, now, nil
	}
	path, err := r.file(dir)
	if err != nil {
		return then, now, nil // checkFile says so
	}
	return w.Live.identitiesWith(ctx, path)
}

// checkIdentity refuses a backup with the identity of another host, or of this host in another cluster. The identity of a clone, or of a
// host that joined once more, would make two hosts one.
func (d *Database) checkIdentity(dir string, then, now identified) error {
	switch {
	case now.name == then.name:
		return nil
	case then.none: // a copy from before the agent joined, or with certificates of several hosts: the agent would have to join again
		return invalid(dir, OtherHost, "names no host and no cluster, and this host's agent is %s now", now.name)
	case now.name != "":
		return invalid(dir, OtherHost, "has the identity %s, and this host's agent is %s now", then.name, now.name)
	}
	if err := d.checkHostID(then); err != nil {
		return invalid(dir, OtherHost, "has the identity %s, and this host's agent may be another one: its database names none, and %v",
			then.name, err)
	}
	return nil
}

// CheckWhole is Check for a backup that is known to be the right one.
func (d *Database) CheckWhole(ctx context.Context, dir string) (err error) {
	defer contain(&err)
	r, err := d.metadata(dir)
	if err != nil {
		return err
	}
	_, err = r.checkFile(ctx, dir)
	return err
}

func (w Want) matches(dir string, m Meta) error {
	age := w.Now.Sub(m.Created)
	switch {
	case canonicalProxy(m.Proxy) != canonicalProxy(w.Proxy):
		return invalid(dir, OtherProxy, "belongs to the cluster at %q, not to %q", m.Proxy, w.Proxy)
	case m.Version != w.Version:
		return invalid(dir, OtherVersion, "is of version %q, not of %q", m.Version, w.Version)
	case m.Edition != "" && m.Edition != w.Edition:
		return invalid(dir, OtherEdition, "is of edition %q, not of %q", m.Edition, w.Edition)
	case age < -clockSkew:
		return invalid(dir, FromFuture, "says it was taken at %s, which is in the future; the clock of the host may be wrong",
			m.Created.Format(time.RFC3339))
	case w.MaxAge > 0 && age > w.MaxAge:
		return invalid(dir, TooOld, "is %s old, more than the %s allowed; the certificates in it may have expired",
			inDays(age), inDays(w.MaxAge))
	}
	return nil
}

// inDays writes a duration as a person counts it.
func inDays(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.Round(time.Second).String()
}

// canonicalProxy makes the spellings of one address equal.
func canonicalProxy(addr string) string {
	addr = strings.ToLower(strings.TrimSuffix(addr, "/"))
	addr = strings.TrimPrefix(addr, "https://")
	return strings.TrimSuffix(addr, ":443")
}
