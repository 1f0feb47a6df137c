package backup

import (
	"teleport-update/internal/space"
)

// spaceMargin is the space that must stay free beside a copy, in bytes: the agent goes on writing while it is made.
const spaceMargin = 8 << 20

// checkSpace returns a *space.Error unless a copy of size bytes fits into dir.
func checkSpace(dir string, size int64) error { return space.Check(dir, size+spaceMargin, 0) }
