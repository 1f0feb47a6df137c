// Package archive reads the tarball of a release, and trusts nothing in it.
//
// [Unpack] reads the tarball once, as a stream, gives the files that a host needs to a [Sink],
// and refuses the whole tarball at the first broken rule. [Check] reads on and names
// every [Violation]. Both run the same code over the same rules, so that they accept
// the same tarballs.
//
// # Rules
//
// The stream:
//
//	tarball      it has at most Limits.Download bytes
//	format       it is gzip or zstd, and not empty
//	window       a zstd window is of at most MaxZstdWindow
//	ratio        it grows to no more bytes per compressed byte than Limits.Ratio, beyond Limits.Slack
//	total        it grows to no more than Limits.Total
//	damage       it can be decompressed, and is a tar archive
//	cut          it goes on to the end of its last entry and of the compressed data
//	end-mark     it ends with the two zero blocks of a tar archive
//	trailing     nothing follows them but zeros, at most 1 MiB; nothing follows the one gzip member
//
// Each entry:
//
//	entries      there are no more than Limits.Entries
//	sparse       it is no sparse file
//	kind         it is a regular file or a folder: no link, device, pipe or global header
//	mode         a file has no setuid, setgid or sticky bit
//	name-length  its name has at most MaxNameLength bytes
//	depth        its path has at most MaxDepth names
//	name         its name is relative, clean and valid UTF-8
//	characters   no control character and no backslash is in its name
//	top          it lies in a folder teleport or teleport-ent
//	one-top      all entries lie in the same one
//	top-file     the top folder is a folder
//	below-file   it does not lie below a file
//	twice        its name is there once
//	size         a file has at most Limits.File bytes
//	unit-size    the unit has at most MaxUnit bytes
//
// The release:
//
//	agent        it has an executable file teleport in its top folder
//	unit         it has examples/systemd/teleport.service
//
// # What is unpacked
//
//   - executable regular files directly in the top folder, except the script install,
//     go to bin/;
//   - examples/systemd/teleport.service goes to etc/systemd/, and
//     examples/systemd/fips/teleport.service, if there is one, to etc/systemd/teleport-fips.service.
//
// The rest (LICENSE, README, examples) is read, checked and dropped; VERSION is in the [Label].
package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
)

// The paths of a release's files, relative to its folder.
const (
	Programs = "bin" // the folder of executable files
	Agent    = Programs + "/teleport"
	Unit     = "etc/systemd/teleport.service"
	FIPSUnit = "etc/systemd/teleport-fips.service" // of the FIPS edition
)

// Violation is one rule that an archive breaks.
type Violation struct {
	Rule string // its name in the list above
	Text string // what is wrong, for a person
}

func (v *Violation) Error() string { return "release archive refused: " + v.Text }

func violation(rule, format string, args ...any) *Violation {
	return &Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
}

// Sink takes the files of a release in the order of the archive.
type Sink interface {
	// Create starts a file of exactly size bytes: Unit or FIPSUnit, with mode 0644, or one
	// directly in Programs, with mode 0755. No name comes twice. Closing ends it.
	Create(name string, mode fs.FileMode, size int64) (io.WriteCloser, error)
}

// Label is an archive's own description. It proves nothing by itself; if the archive is signed, it
// says which release was signed.
type Label struct {
	Top     string // the top folder: teleport, or teleport-ent for the enterprise editions
	Version string // content of the file VERSION in it, without white space around; empty: none
}

// Unpack reads a compressed archive to the end of r. The error is a *Violation, an error of r, or
// an error of the sink. After a *Violation, r is not read to its end and the files that the sink
// got are useless. If the reading ends before r, Unpack calls stop, which has to end a waiting
// Read of r; after Unpack has returned, r is not read any more.
func Unpack(r io.Reader, limits Limits, to Sink, stop func()) (Label, error) {
	a := newReader(limits, to, func(v *Violation) error { return v })
	err := a.run(r, stop)
	return Label{Top: a.top, Version: a.version}, err
}

// Check reads a compressed archive to the end of r and returns every violation, in the order of
// the archive; none for an archive that Unpack accepts. After a violation of a stream rule or of
// Limits.Entries it cannot judge later entries. The error is an error of r.
func Check(r io.Reader, limits Limits) (found []*Violation, err error) {
	report := func(v *Violation) error {
		found = append(found, v)
		return nil
	}
	in := &source{r: r}
	err = newReader(limits, nowhere{}, report).run(in, func() {})
	if v, last := errors.AsType[*Violation](err); last {
		found, err = append(found, v), nil
	}
	// The bytes that were not read count for this rule.
	named := func(v *Violation) bool { return v.Rule == "tarball" }
	if err == nil && !slices.ContainsFunc(found, named) {
		if _, err = io.CopyN(io.Discard, in, limits.Download+1-in.bytes); err == nil {
			found = append(found, tooLong(limits))
		}
	}
	return found, in.err
}

// nowhere is the sink of a check.
type nowhere struct{}

func (nowhere) Create(string, fs.FileMode, int64) (io.WriteCloser, error) { return nowhere{}, nil }
func (nowhere) Write(p []byte) (int, error)                               { return len(p), nil }
func (nowhere) Close() error                                              { return nil }

// run reads in three stages at once: receive, decompress, unpack. Decompression
// takes the longest and hides the others.
func (a *reader) run(r io.Reader, stop func()) error {
	// The second pipe is long enough to go on decompressing while the disk is
	// busy with something else for some milliseconds.
	compressed, plain := newPipe(4, 128<<10), newPipe(12, 256<<10)
	var stages sync.WaitGroup
	stages.Go(func() { compressed.fill(r) })
	stages.Go(func() {
		plain.fill(&expander{limits: a.limits, in: source{r: compressed}})
		compressed.stop()
	})
	err := a.read(plain)
	plain.stop()
	if err != nil {
		stop()
	}
	stages.Wait()
	if failed, ok := errors.AsType[*readError](err); ok {
		return failed.err
	}
	return err
}
