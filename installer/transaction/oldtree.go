package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"teleport-update/installer/state"
)

// fetchLimit is how long the release of the version before may take to come again. The
// agent may be down meanwhile.
const fetchLimit = 10 * time.Minute

// startable reports whether the program of a tree is there and may be executed.
func startable(t state.Tree) bool {
	info, err := os.Stat(filepath.Join(t.ProgramsDir(), "bin", "teleport"))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// seeOldThere sees, before anything depends on it, that the version before can be started.
// Where somebody took its program away, or the right to execute it, it is fetched again.
func (u *undoing) seeOldThere(ctx context.Context) error {
	if u.j.From == nil || startable(*u.j.From) {
		return nil
	}
	u.log.Warn("the version before cannot be started any more; it is fetched again", "version", u.j.From.String())
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, fmt.Errorf("it took longer than %v", fetchLimit))
	defer cancel()
	c, err := u.config.found()
	if err == nil {
		err = u.refetch(ctx, c, *u.j.From)
	}
	if err == nil && !startable(*u.j.From) {
		err = errors.New("what was fetched is no program")
	}
	return wrap(err, "version %s cannot go back: there is no program to execute in %s, and fetching it again failed: %w", u.j.From,
		u.j.From.ProgramsDir())
}
