// Package versions keeps the releases of the agent on one host: it fetches
// them, checks them, unpacks them beside one another, links one of them, and
// removes what nothing needs any more.
//
// # What is on disk
//
// Everything lives in one folder, DATA/versions:
//
//	15.1.1/              one release, complete from the moment it has this name
//	  bin/               what may be linked
//	  etc/systemd/teleport.service
//	  edition            one word: oss, enterprise, enterprise-fips
//	  manifest           the SHA-256 of each file above, as "sha256sum -c" reads it
//	  sha256             the digest of the tarball: written last
//	  backup/            the agent's database as this version left it; not ours
//	15.1.1_enterprise/   the same version in another edition
//	partial/             downloads that may be continued, trees not finished
//	original/            what stood where our links are now
//
// A folder is a release when its name is VERSION or VERSION_EDITION and
// sha256, edition and manifest are in it. Every other name is somebody else's
// and is never touched.
//
// # What a crash can leave
//
// A tree is built in partial/.staging-*, whose every file and folder is on
// stable storage before sha256 is written, and sha256 before the tree gets its
// final name in one rename. So a tree under its final name is whole after a
// power cut at any instant. Staging folders and kept downloads that a crash
// leaves behind are removed by the next fetch.
//
// # What a release may hold
//
// A tarball is read once, as a stream, and trusted with nothing: package archive has
// the rules, and says which of its files come into the tree. They get mode 0755 or
// 0644 and, when root runs this, root as their owner, whatever the archive and the
// umask say.
//
// # What is executed and linked
//
// Teleport's own releases carry a program named teleport-update that is not
// this one. It is known by its build information, without being run; it is
// unpacked (the manifest covers it) and never linked.
//
// # Locks
//
// The package takes none. [Fetcher.Fetch] needs the caller to keep other fetches
// out; [ApplyLinks], [RevertLinks] and [Store.Retain] other transactions.
package versions
