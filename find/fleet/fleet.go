// Package fleet keeps what is known of hosts in little memory: some 120 bytes and its
// name for a host. It is a table and no more; who may say what of a host, and where
// that is kept beyond the life of a process, is for others.
//
// All strings that many hosts share (groups, versions, errors) are kept once, and
// times in whole seconds. Nothing in a record is a pointer, so that a collection of
// garbage does not look at a million of them. What hosts can make up is bounded:
// a Put that would go beyond a bound fails, and changes nothing.
package fleet

import (
	"errors"
	"time"

	"teleport-update/find/rollout"
)

// Entry is all that is known of one host.
type Entry struct {
	rollout.Host
	// Secret is a digest of the secret that the host reports with; zero for one that
	// may not report.
	Secret [16]byte
	// Token names what the host has joined by.
	Token string
	// Sequence is that of the last report.
	Sequence uint32
	// Boots are digests of the last boot ids, the newest first; zero for none.
	Boots [3]uint32
	// Alternated is when two boots last took turns.
	Alternated time.Time
	// Burst counts the reports of the minute of LastSeen.
	Burst uint8
	// Revision is that of the host in a store; zero for none.
	Revision int64
}

// ErrFull says that hosts have made up more different words, or are more, than there
// is room for.
var ErrFull = errors.New("the table of hosts is full")

// Limits bound what a table holds.
type Limits struct {
	Hosts int
	// Words bounds how many different groups, versions, editions, architectures and
	// errors there are, each; never more than 65,535.
	Words int
}

// record is an Entry without a pointer. Words and the name are places in the
// table's own lists.
type record struct {
	id, updater rollout.HostID
	secret      [16]byte
	revision    int64
	boots       [3]uint32
	sequence    uint32

	firstSeen, lastSeen, toldAt, begunAt, alternated uint32

	name                                              uint32
	group, token, version, told, begun, edition, arch uint16
	flags, burst                                      uint8
}

const (
	pinned = 1 << iota
	disabled
	unhealthy
	cloned
	hasFailed // its failure is in the table's failures
)

// failure is kept apart: few hosts have one.
type failure struct {
	outcome int64 // in nanoseconds
	at      uint32
	target  uint16
	text    uint16
}

func seconds(t time.Time) uint32 {
	if t.IsZero() {
		return 0
	}
	return uint32(max(t.Unix(), 0))
}

func moment(s uint32) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

func flag(set bool, bit uint8) uint8 {
	if set {
		return bit
	}
	return 0
}
