package backup

import (
	"context"

	"github.com/ncruces/go-sqlite3"
)

// query asks the agent's database, running or not, within one read transaction.
func query[T any](ctx context.Context, s source, ask func(*sqlite3.Conn) (T, error)) (found T, err error) {
	err = s.read(ctx,
		func() error {
			c, err := connectLive(ctx, s.path)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Exec("BEGIN"); err != nil {
				return err
			}
			found, err = ask(c)
			return err
		},
		func(c condition) error {
			if c.unsettled() {
				return ErrUnsettled
			}
			found, err = settled(ctx, s.path, ask)
			return err
		})
	return found, err
}

// settled asks a database that nobody writes and that needs no recovery. Immutable means that no lock is taken and no file is made beside
// it, in any journal mode.
func settled[T any](ctx context.Context, path string, ask func(*sqlite3.Conn) (T, error)) (found T, err error) {
	c, err := connect(ctx, path, sqlite3.OPEN_READONLY, "immutable=1")
	if err != nil {
		return found, err
	}
	defer c.Close()
	return ask(c)
}
