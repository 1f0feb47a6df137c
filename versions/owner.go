package versions

import (
	"io/fs"

	"teleport-update/internal/trust"
)

// FORWARDER until the last commit.
func ownedByUs(info fs.FileInfo) bool { return trust.Ours(info) }
