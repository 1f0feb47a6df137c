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
// A tarball is read once, as a stream, and trusted with nothing. It is refused
// as a whole when any entry breaks one of these rules:
//
//   - gzip or zstd, one gzip member, nothing after it; a zstd window of at
//     most [MaxZstdWindow];
//   - regular files and folders only: no links, devices, pipes, sparse files
//     or global headers; no setuid, setgid or sticky file;
//   - names are relative, clean, valid UTF-8 without control characters or
//     backslashes, at most [MaxNameLength] bytes and [MaxDepth] deep, and none
//     comes twice or lies below a file;
//   - one top folder, teleport or teleport-ent;
//   - a unit of at most [MaxUnit];
//   - no more entries, bytes per file, bytes in all and bytes per compressed
//     byte than [Limits] says;
//   - the archive ends with its two zero blocks, and only zeros follow.
//
// Of what is left, this is written:
//
//   - regular files directly in the top folder that somebody may execute go to
//     bin/, but for the script install;
//   - examples/systemd/teleport.service goes to etc/systemd/.
//
// The rest (VERSION, LICENSE, README, examples) is read, checked and dropped. A
// release without bin/teleport or without the unit is refused. Files get mode
// 0755 or 0644 and, when root runs this, root as their owner, whatever the
// archive and the umask say.
//
// # What is executed and linked
//
// Teleport's own releases carry a program named teleport-update that is not
// this one. It is known by its build information, without being run; it is
// unpacked (the manifest covers it) and never linked.
//
// # Locks
//
// The package takes none. [Fetcher.Fetch] needs the caller to keep other
// fetches out; [ApplyLinks], [RevertLinks] and [Store.Retain] other switches.
package versions
