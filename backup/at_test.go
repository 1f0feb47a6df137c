package backup

import (
	"context"
	"time"
)

// at calls a method of the database at path, which is opened for it alone.
func at[T any](path string, do func(*Database) (T, error)) (none T, err error) {
	d, err := Open(path)
	if err != nil {
		return none, err
	}
	defer d.Close()
	return do(d)
}

func errAt(path string, do func(*Database) error) error {
	_, err := at(path, func(d *Database) (struct{}, error) { return struct{}{}, do(d) })
	return err
}

func take(ctx context.Context, path string, r TakeRequest) error {
	return errAt(path, func(d *Database) error {
		_, err := d.Take(ctx, r)
		return err
	})
}

func restore(ctx context.Context, path, dir string) error {
	return errAt(path, func(d *Database) error { return d.Restore(ctx, dir) })
}

func probe(ctx context.Context, path string) error {
	return errAt(path, func(d *Database) error { return d.Probe(ctx) })
}

func inspectAt(ctx context.Context, path string) error {
	return errAt(path, func(d *Database) error { return d.Inspect(ctx) })
}

func sameSchema(ctx context.Context, path, dir string) (bool, error) {
	return at(path, func(d *Database) (bool, error) { return d.SameSchema(ctx, dir) })
}

func setAsideAt(ctx context.Context, path string, now time.Time) (string, error) {
	return at(path, func(d *Database) (string, error) { return d.SetAside(ctx, now) })
}

func sizeAt(path string) (int64, error) {
	return at(path, (*Database).Size)
}
