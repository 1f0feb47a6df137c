package versions

import (
	"teleport-update/internal/space"
	"teleport-update/versions/archive"
)

// fewFiles is how many files a release may need, with room to spare.
const fewFiles = 256

// spaceNeeded estimates, in bytes, what a release takes until it is published: what
// the running one takes and a fifth more, or four times its tarball, whatever is
// larger. A length below zero is unknown. (RFD 0169 compares the tarball's length
// itself, which is that of the compressed release.)
func spaceNeeded(active, length, extra int64) int64 {
	return max(active+active/5, 4*length, 0) + extra
}

// FORWARDERS until the last commit.
type NoSpaceError = space.Error

type room struct{ bytes int64 }

func roomAt(path string) (room, error) {
	free, err := space.At(path)
	return room{free.Bytes}, err
}

func checkSpace(path string, need int64) error { return space.Check(path, need, fewFiles) }

func asNoSpace(err error, path string) error { return space.Explain(err, path) }

const MaxUnit = archive.MaxUnit
