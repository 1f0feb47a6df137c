// Package release builds Teleport release tarballs from the stand-in agent, for
// tests and for the demo.
//
// A tarball has the names and the layout that Teleport's have: one top folder
// with the binaries, the unit under examples/systemd, and the files that a host
// does not need. Its teleport is the built agent with a stamp (package stamp);
// tsh, tctl and tbot are small scripts that print their version. Equal specs
// give equal bytes.
package release

import (
	"archive/tar"
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"teleport-update/integration/agent/stamp"
	"teleport-update/internal/version"
)

// Spec says what a release is. Only Agent and Version are required.
type Spec struct {
	// Agent is the path of the built stand-in agent.
	Agent   string
	Version string          // without a leading v
	Edition version.Edition // default version.OSS
	Variant stamp.Variant   // default stamp.Sound
	Schema  int             // of the database; default 1

	CrashAfter time.Duration // for stamp.CrashLoops; default 2 s
	DrainFor   time.Duration // for stamp.Drains; default 5 min

	Unit        Unit
	Compression Compression // default Gzip
	// Pad makes the teleport binary that many bytes larger: with noise that
	// does not compress, or with repeating text if PadText.
	Pad     int64
	PadText bool
	// Files are added to the top folder, or replace what is there by that name.
	Files []File
	// Omit names binaries that this release does not have (tsh, tctl, tbot).
	Omit []string
}

// File is one more file of a release: Data, or the content of the file at Path.
type File struct {
	Name string // relative to the top folder
	Mode int64  // default 0755
	Data []byte
	Path string
}

// Compression is how a tarball is compressed. The file name ends in .tar.gz in
// any case, as it does at a mirror that serves zstd under the CDN's names.
type Compression string

const (
	Gzip Compression = "gzip"
	// Stored is gzip without compression, which is faster to make and to unpack.
	Stored Compression = "stored"
	Zstd   Compression = "zstd"
)

// Name is the file name that Teleport's CDN gives to a release for this machine.
func Name(v string, e version.Edition) string {
	name, suffix := "teleport", ""
	if e.Enterprise() {
		name = "teleport-ent"
	}
	if e.FIPS() {
		suffix = "-fips"
	}
	return fmt.Sprintf("%s-v%s-%s-%s%s-bin.tar.gz", name, v, runtime.GOOS, runtime.GOARCH, suffix)
}

// Build writes the tarball and, beside it, its checksum in a file of that name
// plus ".sha256" to dir, replacing older ones. It returns the tarball's path and
// digest.
func Build(dir string, s Spec) (path, digest string, err error) {
	s.setDefaults()
	path = filepath.Join(dir, Name(s.Version, s.Edition))
	defer func() {
		if err != nil {
			err = fmt.Errorf("build release %s: %w", path, err)
		}
	}()
	f, err := os.CreateTemp(dir, ".release-")
	if err != nil {
		return "", "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	sum := sha256.New()
	if err := s.write(io.MultiWriter(f, sum)); err != nil {
		return "", "", err
	}
	if err := f.Chmod(0o644); err != nil {
		return "", "", err
	}
	if err := f.Close(); err != nil {
		return "", "", err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return "", "", err
	}
	digest = fmt.Sprintf("%x", sum.Sum(nil))
	line := fmt.Sprintf("%s  %s\n", digest, filepath.Base(path))
	return path, digest, os.WriteFile(path+".sha256", []byte(line), 0o644)
}

func (s *Spec) setDefaults() {
	s.Edition = cmp.Or(s.Edition, version.OSS)
	s.Variant = cmp.Or(s.Variant, stamp.Sound)
	s.Schema = cmp.Or(s.Schema, 1)
	s.CrashAfter = cmp.Or(s.CrashAfter, 2*time.Second)
	s.DrainFor = cmp.Or(s.DrainFor, 5*time.Minute)
	s.Compression = cmp.Or(s.Compression, Gzip)
	s.Unit.setDefaults()
}

func (s *Spec) write(w io.Writer) error {
	packed, err := s.compressor(w)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(packed, 1<<20)
	archive := tar.NewWriter(buffered)
	if err := s.writeEntries(archive); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return packed.Close()
}

// compressor favours speed: what is tested is never the compression.
func (s *Spec) compressor(w io.Writer) (io.WriteCloser, error) {
	switch s.Compression {
	case Gzip:
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case Stored:
		return gzip.NewWriterLevel(w, gzip.NoCompression)
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	}
	return nil, fmt.Errorf("compression %q is none of gzip, stored and zstd", s.Compression)
}

func (s *Spec) writeEntries(archive *tar.Writer) error {
	top := "teleport/"
	if s.Edition.Enterprise() {
		top = "teleport-ent/"
	}
	entries, err := s.entries()
	if err != nil {
		return err
	}
	made := map[string]bool{}
	mkdir := func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		return archive.WriteHeader(header(dir, 0o755, 0, tar.TypeDir))
	}
	for _, e := range entries {
		name := top + e.name
		for i, c := range name {
			if c == '/' {
				if err := mkdir(name[:i+1]); err != nil {
					return err
				}
			}
		}
		if err := archive.WriteHeader(header(name, e.mode, e.size, tar.TypeReg)); err != nil {
			return err
		}
		if err := e.writeTo(archive); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// header carries a fixed time, so that equal specs give equal bytes.
func header(name string, mode, size int64, kind byte) *tar.Header {
	return &tar.Header{
		Name: name, Mode: mode, Size: size, Typeflag: kind, Uname: "root", Gname: "root",
		ModTime: time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), Format: tar.FormatPAX,
	}
}
