package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// Probe reports whether a backup of the database looks possible, at the cost of reading its schema: nil, ErrNoDatabase, or a *CorruptError.
// It changes nothing. Damage further inside shows only when the backup is taken.
func (d *Database) Probe(ctx context.Context) error {
	return d.inspect(ctx, func(c *sqlite3.Conn) (problems string, err error) {
		_, err = readSchema(c)
		return "", err
	})
}

// Inspect is Probe at the cost of reading the whole database: it runs SQLite's quick_check. It changes nothing; with a rollback journal,
// the agent's writes wait meanwhile. A database that has to be recovered first is not looked into.
func (d *Database) Inspect(ctx context.Context) error { return d.inspect(ctx, quickCheckOn) }

func (d *Database) inspect(ctx context.Context, check func(*sqlite3.Conn) (problems string, err error)) (err error) {
	defer d.explained(&err)
	defer contain(&err)
	src, err := d.source()
	if err != nil {
		return err
	}
	problems, err := query(ctx, src, check)
	if errors.Is(err, ErrUnsettled) {
		return nil
	}
	if err == nil && problems != "" {
		err = &CorruptError{Path: src.path, Detail: problems}
	}
	return explain(ctx, err, src.path, src.path)
}

// SameSchema reports whether the live database has the schema of the backup in dir: the same user_version, tables, indexes, views and
// triggers. If it has not, the version that left the backup may not work on it. An error means that this is not known.
func (d *Database) SameSchema(ctx context.Context, dir string) (same bool, err error) {
	then, now, err := d.schemas(ctx, dir)
	return err == nil && now == then, err
}

// Descent says how sure it is that a database is the one in a backup.
type Descent int

const (
	// NoDescent: it is another one, or that is not known.
	NoDescent Descent = iota
	// SameTables: it has all tables of the backup, at least one, besides tables that a newer version added. A database that an agent made anew
	// has them, too.
	SameTables
	// SameIdentity: and the certificates of the agent, which are issued once.
	SameIdentity
)

// DescendsFrom looks whether the live database is the one of the backup in dir. A database with other certificates is not. An error means
// that this is not known.
func (d *Database) DescendsFrom(ctx context.Context, dir string) (Descent, error) {
	then, now, err := d.schemas(ctx, dir)
	if err != nil {
		return NoDescent, err
	}
	tables := strings.Fields(now.tables)
	for table := range strings.FieldsSeq(then.tables) {
		if !slices.Contains(tables, table) {
			return NoDescent, nil
		}
	}
	if then.tables == "" {
		return NoDescent, nil
	}
	return d.sameCertificates(ctx, dir)
}

// sameCertificates is DescendsFrom for a database that has the backup's tables.
func (d *Database) sameCertificates(ctx context.Context, dir string) (_ Descent, err error) {
	defer d.explained(&err)
	defer contain(&err)
	copied, err := d.copied(dir)
	if err != nil {
		return NoDescent, err
	}
	then, err := settled(ctx, copied, identity)
	if errors.Is(err, errNoIdentity) {
		return SameTables, nil
	}
	if err != nil {
		return NoDescent, err
	}
	src, err := d.source()
	if err != nil {
		return NoDescent, err
	}
	now, err := query(ctx, src, identity)
	switch {
	case errors.Is(err, errNoIdentity):
		return NoDescent, nil
	case err != nil:
		return NoDescent, err
	case now.certificates == then.certificates:
		return SameIdentity, nil
	}
	return NoDescent, nil
}

// schemas returns the schema of the backup in dir, and the schema of the live database.
func (d *Database) schemas(ctx context.Context, dir string) (then, now schema, err error) {
	defer d.explained(&err)
	defer contain(&err)
	copied, err := d.copied(dir)
	if err != nil {
		return then, now, err
	}
	if then, err = settled(ctx, copied, readSchema); err != nil && ctx.Err() != nil {
		return then, now, explain(ctx, err, copied, copied)
	} else if err != nil {
		return then, now, unusable(dir, err, "is damaged: read the schema of %s: %v", FileName, err)
	}
	src, err := d.source()
	if err != nil {
		return then, now, err
	}
	if now, err = query(ctx, src, readSchema); err != nil {
		err = fmt.Errorf("read the schema of %s: %w", src.path, explain(ctx, err, src.path, src.path))
	}
	return then, now, err
}
