//go:build hosts

// Package pairs has two acts of others happen to one host, each before its agent changes its version or in the middle of
// it.
package pairs

import (
	"os"
	"testing"

	"teleport-update/integration/acts"
)

func TestMain(m *testing.M) { os.Exit(acts.Main(m, 4)) }

// Whatever two others do to a host: an agent that ran, runs; what status says is what is there; and
// who follows its advice does no harm.
func TestWhateverTwoOthersDoAnAgentRuns(t *testing.T) { acts.InPairs().Run(t) }
