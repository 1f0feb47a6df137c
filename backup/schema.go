package backup

import (
	"context"
	"errors"
	"fmt"
)

// errUnsettled says that a database cannot be read before it is recovered,
// which is not for a reader to do.
var errUnsettled = errors.New("an interrupted write lies beside it, which the agent has to recover")

// Probe tells whether a backup of the agent's database at path looks possible,
// at the cost of reading its schema: nil, ErrNoDatabase, or a *CorruptError.
// It changes nothing. Damage further inside shows only when the backup is
// taken.
func Probe(ctx context.Context, path string) (err error) {
	defer contain(&err)
	src, err := findSource(path)
	if err != nil {
		return err
	}
	_, err = src.schema(ctx)
	if errors.Is(err, errUnsettled) {
		return nil
	}
	return explain(ctx, err, src.path, src.path)
}

// Inspect is Probe at the cost of reading the whole database: it runs SQLite's
// quick_check. It changes nothing; with a rollback journal, the agent's writes
// wait meanwhile. What has to be recovered first is not looked into.
func Inspect(ctx context.Context, path string) (err error) {
	defer contain(&err)
	src, err := findSource(path)
	if err != nil {
		return err
	}
	var problems string
	err = src.read(ctx,
		func(condition) error {
			c, err := connectLive(ctx, src.path)
			if err != nil {
				return err
			}
			defer c.Close()
			problems, err = quickCheckOn(c)
			return err
		},
		func(c condition) error {
			if c.unsettled() {
				return nil
			}
			problems, err = quickCheck(ctx, src.path)
			return err
		})
	if err == nil && problems != "" {
		err = &CorruptError{Path: src.path, Detail: problems}
	}
	return explain(ctx, err, src.path, src.path)
}

// SameSchema reports whether the live database at path has the schema of the
// backup in dir: the same user_version, tables, indexes, views and triggers.
// When it has not, the version that left the backup may not work on it.
// An error means that it cannot be told.
func SameSchema(ctx context.Context, path, dir string) (same bool, err error) {
	defer contain(&err)
	r, err := readRecord(dir)
	if err != nil {
		return false, err
	}
	copied, err := r.file(dir)
	if err != nil {
		return false, err
	}
	want, err := settledSchema(ctx, copied)
	if err != nil {
		return false, fmt.Errorf("read the schema of %s: %w", copied, err)
	}
	src, err := findSource(path)
	if err != nil {
		return false, err
	}
	got, err := src.schema(ctx)
	if err != nil {
		return false, fmt.Errorf("read the schema of %s: %w", src.path, explain(ctx, err, src.path, src.path))
	}
	return got == want, nil
}

// schema reads the schema of the agent's database, running or not.
func (s source) schema(ctx context.Context) (found schema, err error) {
	err = s.read(ctx,
		func(condition) error {
			c, err := connectLive(ctx, s.path)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Exec("BEGIN"); err != nil {
				return err
			}
			found, err = readSchema(c)
			return err
		},
		func(c condition) error {
			if c.unsettled() {
				return errUnsettled
			}
			found, err = settledSchema(ctx, s.path)
			return err
		})
	return found, err
}
