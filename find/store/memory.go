package store

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// inMemory is the path of a store that has no file.
const inMemory = ":memory:"

// OpenMemory makes an empty store in memory. It ends with its process.
func OpenMemory(ctx context.Context) (*SQLite, error) {
	c, err := sqlite3.Open(inMemory)
	if err != nil {
		return nil, fmt.Errorf("open a store in memory: %w", err)
	}
	c.SetInterrupt(ctx)
	defer c.SetInterrupt(context.Background())
	if err := initialise(c); err != nil {
		c.Close()
		return nil, fmt.Errorf("open a store in memory: %w", err)
	}
	return &SQLite{path: inMemory, conn: c}, nil
}
