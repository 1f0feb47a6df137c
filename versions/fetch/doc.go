// Package fetch brings releases from mirrors into the store of package versions, or into a
// folder from which hosts are served.
//
// A [Fetcher] tries mirrors in order. Each tarball is one [download]: a stream that
// hides lost connections, and ends in an error when no mirror can continue it. A tarball is read
// once: the same pass hashes it, unpacks it by the rules of package archive, and writes it to
// the store's build; nothing of it has a version's name before its checksum is
// verified.
//
// A [Template] makes the URL of a tarball. Each scheme of URLs has a source,
// with a row in the table in source.go.
//
// # What a crash can leave
//
// Unpublished builds, which the next fetch removes, and downloads, which it removes or, if they
// were slow, continues; see package versions.
//
// # Locks
//
// [Fetcher.Fetch] needs the caller to keep other fetches out. [Fetcher.Save] locks the file
// that it downloads into.
package fetch
