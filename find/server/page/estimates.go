package page

import (
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/simulate"
)

// forecasts is the last simulation. One runs at a time.
type forecasts struct {
	clock func() time.Time

	mu     sync.Mutex
	made   time.Time
	target rollout.Semver
	last   map[string]simulate.Estimate
}
