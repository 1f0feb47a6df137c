package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"

	"teleport-update/packaging/signing"
)

// stage is a folder with the packages for the new repository, in which the indexes are
// written. It is in the repository, which has room for it, under a name that no client
// sees. The next run removes the stage of an interrupted one.
type stage struct {
	dir   string // absolute
	taken int
}

const (
	stageName = ".stage"
	incoming  = "incoming"
	rpmDB     = "rpmdb"
)

// newStage makes an empty stage, with the keys for checks of rpms.
func newStage(ctx context.Context, dir string, keys openpgp.EntityList) (*stage, error) {
	dir, err := filepath.Abs(filepath.Join(dir, stageName))
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir}
	if err := s.remove(); err != nil {
		return nil, err
	}
	folders := []string{incoming, rpmDB, aptPool}
	for _, arch := range architectures {
		folders = append(folders, path.Join(yumFolder, arch.rpm), path.Join(aptSuite, component, "binary-"+arch.deb))
	}
	for _, name := range folders {
		if err := os.MkdirAll(s.path(name), 0o755); err != nil {
			return nil, err
		}
	}
	for _, key := range keys {
		if err := s.trust(ctx, key); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *stage) remove() error { return os.RemoveAll(s.dir) }

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// rpm runs one of rpm's programs with its own database, without the user's keys and
// settings.
func (s *stage) rpm(name string, args ...string) program {
	return program{env: []string{"HOME=" + s.dir}, args: append([]string{name, "--dbpath", s.path(rpmDB)}, args...)}
}

func (s *stage) trust(ctx context.Context, key *openpgp.Entity) error {
	text, err := signing.PublicKeys(openpgp.EntityList{key})
	if err != nil {
		return err
	}
	file := s.path("key.asc")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	_, err = s.rpm("rpmkeys", "--import", file).output(ctx)
	return err
}

// checkRPM checks that an rpm has correct digests and a signature by one of the keys.
func (s *stage) checkRPM(ctx context.Context, file string) error {
	_, err := s.rpm("rpmkeys", "--define", "_pkgverify_level all", "--checksig", "--verbose", file).output(ctx)
	if err != nil {
		return fmt.Errorf("it is damaged, or not signed by the key given (%w): build it with mkpackages --key, as make repository does", err)
	}
	return nil
}

// take copies a package, so that it stays as it was read.
func (s *stage) take(file string) (taken string, err error) {
	s.taken++
	taken = s.path(fmt.Sprintf("%s/%d%s", incoming, s.taken, filepath.Ext(file)))
	return taken, copyFile(file, taken)
}

// lay puts a package in its place in the stage.
func (s *stage) lay(p *pkg) error {
	to := s.path(p.path)
	if p.isNew {
		if err := os.Rename(p.file, to); err != nil {
			return err
		}
	} else if err := copyFile(p.file, to); err != nil {
		return err
	}
	sum, err := sumOfFile(to)
	if err == nil && sum != p.sha256 {
		err = fmt.Errorf("%s was changed while it was read", p.path)
	}
	p.file = to
	if err != nil || !p.isRPM {
		return err
	}
	// The index contains the file's time. Any other time would make another index of
	// the same packages.
	return os.Chtimes(to, p.built, p.built)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return cmp.Or(err, out.Close())
}

func sumOfFile(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// compare checks that an index names exactly these packages, with their digests.
func compare(index map[string]string, packages []*pkg) error {
	var wrong []string
	for _, p := range packages {
		if index[p.path] != p.sha256 {
			wrong = append(wrong, p.path)
		}
	}
	if wrong != nil {
		return fmt.Errorf("it does not name %s as they are", strings.Join(wrong, ", "))
	}
	if len(index) != len(packages) {
		return fmt.Errorf("it names %d packages, and %d are published", len(index), len(packages))
	}
	return nil
}
