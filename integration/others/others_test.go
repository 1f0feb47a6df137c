//go:build hosts

// Package others lets other people and programs act on a host while its agent changes its version: configuration
// management copies a file, a backup reads the database, a mount goes away, systemd is not there for a moment, the
// agent's own user means harm. Whatever they do, and whenever, an agent runs on the database that belongs to it.
//
// Package acts has what they do, and what must be true of the host then; packages before and pairs the rest of it.
package others

import (
	"os"
	"testing"

	"teleport-update/integration/acts"
)

func TestMain(m *testing.M) { os.Exit(acts.Main(m, 3)) }

// Whatever others do to a host, and whenever in a transaction: after one run of the updater an
// agent runs on the database that belongs to it, while the action is in force and once
// it is undone; more runs leave it in peace; and nothing of the others' is lost.
func TestWhateverOthersDoAnAgentRunsOnItsOwnDatabase(t *testing.T) { acts.OneAtATime().Run(t) }
