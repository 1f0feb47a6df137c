package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
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
			c, err := connect(ctx, s.path, sqlite3.OPEN_READONLY, "")
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
				return err
			}
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
