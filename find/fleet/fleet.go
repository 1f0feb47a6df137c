// Package fleet keeps data about hosts in little memory: some 200 bytes for a host.
// It is only a map; others decide which reports to accept, and store them beyond the
// life of a process.
//
// All strings that many hosts share (groups, versions, errors) are kept once, and
// times in whole seconds. Nothing in a record is a pointer, so that a collection of
// garbage does not look at a million of them.
//
// Words that hosts make up are bounded. A word is kept while a record has it; beyond the limit a new word becomes
// Other, but only in the record of the host that has brought it. Words that the operator has named are
// always kept, and so is a verdict, whatever its words.
package fleet

import (
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// Entry is all data about one host.
type Entry struct {
	rollout.Host
	// Secret is a digest of the secret that the host reports with; zero for a host that may not
	// report.
	Secret [16]byte
	// Token names the token by which the host has joined.
	Token string
	// Sequence is the sequence of the last report, from which the rest of the entry comes.
	Sequence uint32
	// Floor is the number that the sequence of the next report has to exceed, as far as others know. It may be larger than
	// the sequence of any report.
	Floor uint32
	// Boots are digests of the last boot ids, the newest first; zero for none.
	Boots [3]uint32
	// Alternated is the last time at which two boots took turns.
	Alternated time.Time
	// Burst counts the reports of the minute of LastSeen.
	Burst uint8
	// Revision is the revision of the host in a store; zero for none.
	Revision int64
}

// Limits bound the content of a table. Its callers bound the number of hosts.
type Limits struct {
	// Words is the largest number of different groups, versions, editions, architectures and errors,
	// each; at most 65,533.
	Words int
	// Named reports whether the operator has named a group or a version: there is room for such a word
	// beyond the limit. It must not block. Nil: no word is named.
	Named func(word string) bool
}

// Kind is a kind of words.
type Kind string

// The kinds of words that hosts report. Errors are kept in the same way, but they do not restrict which reports a server takes.
const (
	Group   Kind = "groups"
	Version Kind = "versions"
	Edition Kind = "editions"
	Arch    Kind = "architectures"
)

// Kinds are all kinds.
var Kinds = []Kind{Group, Version, Edition, Arch}

func (t *Table) of(kind Kind) *words {
	switch kind {
	case Group:
		return t.groups
	case Version:
		return t.versions
	case Edition:
		return t.editions
	}
	return t.archs
}

// Knows reports whether there is room for a word because another host has it, or because the operator has
// named it.
func (t *Table) Knows(kind Kind, word string) bool { return t.of(kind).knows(word) }

// HasRoom reports whether there is room for a new word.
func (t *Table) HasRoom(kind Kind) bool { return t.of(kind).hasRoom() }

// Fill returns how many different words of a kind there are, and the limit for words that the operator has not
// named.
func (t *Table) Fill(kind Kind) (used, limit int) { return t.of(kind).used(), t.limits.Words }

// JoinedBy returns how many of the hosts have joined by a token.
func (t *Table) JoinedBy(token string) int { return t.tokens.records(token) }

// isEdition and isArch recognise the words of this project's programs: other words of hosts cannot displace them.
func isEdition(s string) bool {
	return slices.Contains([]string{"oss", "enterprise", "enterprise-fips"}, s)
}
func isArch(s string) bool { return slices.Contains([]string{"amd64", "arm64"}, s) }

// packed is an Entry without a pointer, of at most 128 bytes: a map keeps pointers to larger values. Words and the name are places
// in the table's own lists.
type packed struct {
	updater  rollout.HostID
	secret   [16]byte
	revision int64
	boots    [3]uint32
	sequence uint32
	floor    uint32

	firstSeen, lastSeen, toldAt, begunAt, alternated uint32

	name                                              uint32
	number                                            uint32 // in the roll, plus 1; 0 for none
	group, token, version, told, begun, edition, arch uint16
	flags, burst                                      uint8
}

const (
	pinned = 1 << iota
	disabled
	unhealthy
	cloned
	belowMinimum
	unsigned
	hasFailed // its failure is in the table's failures
	heard     // it has reported to this server; see Table.Hear
)

// failure is a separate record: few hosts have one.
type failure struct {
	outcome int64 // in nanoseconds
	at      uint32
	until   uint32
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
