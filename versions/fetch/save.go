package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/internal/space"
	"teleport-update/versions"
	"teleport-update/versions/signature"
)

// savedFiles is how many files a Save may make: the tarball and the files beside it, each for a
// moment under two names.
const savedFiles = 8

// SaveRequest says which tarball to keep as a file, and where.
type SaveRequest struct {
	Release versions.Release
	// Sources make the URLs to try, the primary first.
	Sources []*Template
	// Path is the tarball's; its checksum goes beside it, at Path plus ".sha256", in the form of
	// sha256sum(1), and its signature, if the source has one, at Path plus ".sig". The folder must
	// exist.
	Path string
}

// Saved describes the result of Save.
type Saved struct {
	SHA256 string // 64 lower-case hex digits
	Size   int64  // bytes of the tarball
	Signed bool   // its signature lies beside it
	// Present reports that the announced tarball was there already.
	Present bool
}

// Save brings a release's tarball and its checksum into a folder, from which
// hosts can be served. The tarball gets its name only when it is whole,
// matches the checksum that the source announces, and is on stable storage. A present tarball
// that matches is not downloaded again; one that does not match is
// replaced. The bytes from an interrupted Save stay beside it, under a name
// that begins with a dot, and the next Save continues them.
//
// Mirrors, attempts and errors are the same as in Fetch.
func (f *Fetcher) Save(ctx context.Context, req SaveRequest) (Saved, error) {
	if err := req.Release.Check(); err != nil {
		return Saved{}, fmt.Errorf("save: %w", err)
	}
	from := Request{Release: req.Release, Sources: req.Sources}
	mirrors, err := f.mirrorsOf(req.Release, req.Sources)
	if err != nil {
		return Saved{}, err
	}
	f.Progress.Start(filepath.Base(req.Path))
	defer f.Progress.End()

	return fromMirrors(ctx, f, "save", from, mirrors, func(d *download) (Saved, error) { return d.save(req.Path) })
}

// save writes the download to a file that is named after its digest, so that it is never continued
// with another tarball's bytes, and then renames it to path.
func (d *download) save(path string) (_ Saved, err error) {
	defer d.close()
	switch saved, err := d.present(path); {
	case err != nil:
		return Saved{}, local(err)
	case saved.Present:
		return d.signPresent(saved, path)
	}
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, "."+d.digest+".part")
	part, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return Saved{}, local(space.Explain(err, dir))
	}
	defer part.Close()
	defer func() {
		if _, again := errors.AsType[*restartError](err); again {
			os.Remove(temp) // its content does not fit the server's
		}
	}()
	// Two processes that write one file would spoil it for both.
	if err := unix.Flock(int(part.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return Saved{}, local(fmt.Errorf("%s is being written by another process: %w", temp, err))
	}
	sum := sha256.New()
	if d.offset, err = io.Copy(sum, part); err != nil {
		return Saved{}, local(err)
	}
	d.furthest, d.stitched = d.offset, d.offset > 0
	if hex.EncodeToString(sum.Sum(nil)) != d.digest {
		if err := d.connect(); err != nil {
			return Saved{}, err
		}
		if err := space.Check(dir, max(d.total-d.offset, 0), savedFiles); err != nil {
			return Saved{}, local(err)
		}
		if _, err := io.Copy(io.MultiWriter(localWriter{part}, sum), d); err != nil {
			return Saved{}, err
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != d.digest {
		os.Remove(temp)
		return Saved{}, &ChecksumError{URL: d.mirrors[0].name, Want: d.digest, Got: got}
	}
	sig, err := d.signatureFile()
	if err != nil {
		return Saved{}, err
	}
	if err := publishFile(part, path, d.digest, sig); err != nil {
		return Saved{}, local(space.Explain(err, dir))
	}
	return Saved{SHA256: d.digest, Size: d.offset, Signed: sig != nil}, nil
}

// signatureFile reads the signature that the source has beside its tarball; nil if it has none, or
// the file is no signature. Hosts verify who made it.
func (d *download) signatureFile() ([]byte, error) {
	if d.proof.Signature != nil {
		return d.proof.Signature, nil // the verifier has read it
	}
	file, err := d.f.sibling(d.ctx, d.mirrors[0])(signature.Suffix, signature.MaxFile)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if _, oversized := errors.AsType[*OversizedError](err); err != nil && !oversized {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	if err == nil {
		err = signature.Check(file)
	}
	if err != nil {
		d.f.Log.Warn("what the source has in the place of a signature is left out", "url", d.mirrors[0].name+signature.Suffix, "error", err)
		return nil, nil
	}
	return file, nil
}

// signPresent brings the signature of a present tarball.
func (d *download) signPresent(saved Saved, path string) (Saved, error) {
	sig, err := d.signatureFile()
	if err != nil {
		return Saved{}, err
	}
	old, err := regular.Read(path+signature.Suffix, signature.MaxFile, 0)
	saved.Signed = err == nil
	if sig == nil || err == nil && bytes.Equal(old, sig) {
		return saved, nil
	}
	if err := durable.WriteFile(path+signature.Suffix, sig, 0o644); err != nil {
		return Saved{}, local(err)
	}
	saved.Signed = true
	return saved, nil
}

// present reports whether the tarball is there, and repairs its checksum file.
func (d *download) present(path string) (Saved, error) {
	f, _, err := regular.Open(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Saved{}, nil
	}
	if _, unsuitable := errors.AsType[*regular.UnsuitableError](err); unsuitable {
		return Saved{}, fmt.Errorf("%s is in the way: it is not a regular file", path)
	}
	if err != nil {
		return Saved{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return Saved{}, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != d.digest {
		return Saved{}, nil
	}
	line := checksumLine(d.digest, path)
	if old, err := regular.Read(path+checksumSuffix, maxChecksum, 0); err != nil || string(old) != line {
		if err := durable.WriteFile(path+checksumSuffix, []byte(line), 0o644); err != nil {
			return Saved{}, err
		}
	}
	return Saved{SHA256: d.digest, Size: size, Present: true}, nil
}

func checksumLine(digest, path string) string {
	return digest + "  " + filepath.Base(path) + "\n"
}

// publishFile gives the tarball its name. It first removes an old checksum and an old signature:
// beside the new tarball they would be wrong, and a missing checksum only makes hosts wait. It
// writes the new checksum last.
func publishFile(part *os.File, path, digest string, sig []byte) error {
	err := errors.Join(part.Chmod(0o644), part.Sync(),
		durable.UnlinkNoSync(path+checksumSuffix), durable.UnlinkNoSync(path+signature.Suffix))
	if err != nil {
		return err
	}
	if err := durable.Replace(part.Name(), path); err != nil {
		return err
	}
	if sig != nil {
		if err := durable.WriteFile(path+signature.Suffix, sig, 0o644); err != nil {
			return err
		}
	}
	return durable.WriteFile(path+checksumSuffix, []byte(checksumLine(digest, path)), 0o644)
}

// localWriter marks errors as errors of this host.
type localWriter struct{ f *os.File }

func (w localWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = local(space.Explain(err, filepath.Dir(w.f.Name())))
	}
	return n, err
}
