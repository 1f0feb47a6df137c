// Package versions keeps the releases of the agent on one host: it provides the folders in
// which they are built, checks them, and removes those that are not needed any more. The package
// versions/fetch brings them from elsewhere; the package installer/host links and starts them.
//
// # What is on disk
//
// The records of the releases, and the agent's databases, are in DATA/versions
// (Store.Dir):
//
//	15.1.1/              the record of one release, complete from the moment it has this name
//	  edition            one word: oss, enterprise, enterprise-fips
//	  manifest           the SHA-256 of each file of the release, as "sha256sum -c" reads it
//	  sha256             the digest of the tarball, written last; or
//	  origin             the package whose agent was copied, see Store.Adopt
//	  signature          over that digest, if the release came with one
//	  bin, etc           links to the programs, if these have a place of their own
//	  backup/            the agent's database as this version left it; not ours
//	15.1.1_enterprise/   the same version in another edition
//	partial/             downloads that may be continued, records not finished
//	original/, rollback/ of the transaction; these and all other names are
//	                     somebody else's, and never touched
//
// Executables are in a folder of the same name in Store.Programs,
// /opt/teleport-update as a rule, which everybody may enter:
//
//	15.1.1/
//	  bin/               programs that may be linked
//	  etc/systemd/       the agent's unit, or one for each edition
//
// Without Store.Programs, bin and etc are folders of the record. A record makes a release when
// its name is VERSION or VERSION_EDITION and edition, manifest, and sha256 or origin are in it.
//
// # What a crash can leave
//
// A release is built in folders .staging-*, in partial/ and beside the programs. Every file
// and folder of it is on stable storage before sha256 is written; then the programs
// get their final name in one rename, and after them the record. So a release is whole
// after a power cut at any instant. If both replace others of their name, a cut
// between the two leaves whole programs that do not match the record, and
// [Tree.Verify] says so. The next fetch removes staging folders that a crash left, and continues
// a download that was worth keeping. A removal takes the record first: programs without a record
// are no release, and [Store.Retain] removes them.
//
// # What a release may hold
//
// Package archive says which files of a tarball come into the tree. They get mode 0755 or
// 0644 and, when root runs this, root as their owner, whatever the archive and the umask say.
//
// # What is executed and linked
//
// Teleport's own releases carry a program named teleport-update that is not
// this one. Its build information identifies it, without running it; it is
// unpacked (the manifest covers it) and never linked.
//
// # Locks
//
// [Store.Begin] and [Store.RemoveUnfinished] need the caller to keep fetches out, [Store.Adopt],
// [Store.Discard] and [Store.Retain] other transactions. A [Claim] is a shared flock(2) on
// a record's folder: it keeps Retain from a release that a command has found or fetched and no
// journal names yet.
package versions
