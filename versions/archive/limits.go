package archive

const (
	// MaxZstdWindow is the largest zstd window taken, in bytes: all levels up
	// to 19 without --long need no more. It bounds the memory of an update.
	MaxZstdWindow = 8 << 20
	// MaxNameLength is the longest name taken in an archive, in bytes.
	MaxNameLength = 256
	// MaxDepth is the largest number of names in a path of an archive.
	MaxDepth = 16
	// MaxUnit is the largest unit file taken, in bytes; real ones are under 1 KiB.
	MaxUnit = 256 << 10
)

// Limits bound the cost of one release. They are checked while the stream is read, so that a bomb
// is stopped early.
type Limits struct {
	Download int64 // bytes of the tarball
	Entries  int   // entries of the archive
	File     int64 // bytes of one file
	Total    int64 // bytes of the whole archive, unpacked
	Ratio    int64 // unpacked bytes per byte of tarball, beyond Slack
	Slack    int64 // unpacked bytes that any tarball may have
}

// DefaultLimits are several times what real releases need: Teleport 17 has 15
// entries, 700 MB, the largest of 350 MB, at a ratio of 4.
func DefaultLimits() Limits {
	return Limits{
		Download: 2 << 30,
		Entries:  4096,
		File:     2 << 30,
		Total:    4 << 30,
		Ratio:    50,
		Slack:    64 << 20,
	}
}
