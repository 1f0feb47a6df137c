//go:build hosts

// Package before has acts happen to a host before its agent changes its version: what an administrator's drop-ins,
// mounts, other units, restored copies and other programs leave behind. The change is refused, or made, or undone.
package before

import (
	"os"
	"testing"

	"teleport-update/integration/acts"
)

func TestMain(m *testing.M) { os.Exit(acts.Main(m, 4)) }

// Whatever was done to a host before a transaction: an agent that ran, runs; what status says is what
// is there; and who follows its advice does no harm.
func TestWhateverWasDoneBeforeAnAgentRuns(t *testing.T) { acts.Before().Run(t) }

// Whatever was done to a host before the updater is uninstalled: an agent that ran, runs, and is there after a boot.
func TestWhateverWasDoneBeforeAnUninstallAnAgentRuns(t *testing.T) { acts.AtTheEnd().Run(t) }
