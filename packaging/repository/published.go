package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"teleport-update/internal/failure"
	"teleport-update/packaging/signing"
)

// published is the content of all indexes with a signature by a trusted key.
type published struct {
	packages map[string]string // digests by path
	indexes  map[string]bool   // paths of files that never change
	date     time.Time         // of the newest index
}

// names reports whether a client may ask for a file.
func (p *published) names(name string) bool {
	return p.packages[name] != "" || p.indexes[name]
}

// readPublished reads the indexes of a repository. An index without a valid signature
// is an error: the files that it names can be neither trusted nor dropped.
func readPublished(dir string, keys openpgp.EntityList, now time.Time) (*published, error) {
	r := &reader{dir, keys, now, &published{packages: make(map[string]string), indexes: make(map[string]bool)}}
	if err := r.apt(); err != nil {
		return nil, fmt.Errorf("%s/InRelease: %w", aptSuite, err)
	}
	for _, arch := range architectures {
		if err := r.yum(arch.rpm); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(yumFolder, arch.rpm, repodata, repomdName), err)
		}
	}
	for name := range r.found.packages {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("an index names %q, which is not below the repository", name)
		}
	}
	return r.found, nil
}

type reader struct {
	dir   string
	keys  openpgp.EntityList
	now   time.Time
	found *published
}

func (r *reader) apt() error {
	signed, err := r.file(aptSuite + "/InRelease")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := signing.VerifyClearsigned(r.keys, signed, r.now)
	if err != nil {
		return notOurs(err)
	}
	digests, date, err := parseRelease(text)
	if err != nil {
		return err
	}
	r.saw(date)
	for name, digest := range digests {
		byHash := path.Join(aptSuite, path.Dir(name), "by-hash", "SHA256", digest)
		r.found.indexes[byHash] = true
		if path.Base(name) != "Packages" {
			continue
		}
		index, err := r.digested(byHash, digest)
		if err != nil {
			return err
		}
		maps.Copy(r.found.packages, parseIndex(index))
	}
	return nil
}

func (r *reader) yum(arch string) error {
	folder := path.Join(yumFolder, arch, repodata)
	text, err := r.file(path.Join(folder, repomdName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	signature, err := r.file(path.Join(folder, repomdName+".asc"))
	if err != nil {
		return err
	}
	binary, err := signing.Unarmored(signature)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	if err := signing.Verify(r.keys, text, binary, r.now); err != nil {
		return notOurs(err)
	}
	m, err := parseRepomd(text)
	if err != nil {
		return err
	}
	r.saw(m.date())
	for _, i := range m.Data {
		r.found.indexes[path.Join(folder, i.name())] = true
	}
	primary, err := r.digested(path.Join(folder, m.primary().name()), m.primary().Checksum)
	if err != nil {
		return err
	}
	packages, err := parsePrimary(primary, arch)
	maps.Copy(r.found.packages, packages)
	return err
}

func (r *reader) saw(date time.Time) {
	if date.After(r.found.date) {
		r.found.date = date
	}
}

func (r *reader) file(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.dir, name))
}

func (r *reader) digested(name, digest string) ([]byte, error) {
	data, err := r.file(name)
	if err == nil && hexSum(data) != strings.ToLower(digest) {
		err = fmt.Errorf("%s is not the one that was signed", name)
	}
	return data, err
}

func notOurs(err error) error {
	return failure.Unchanged(
		"it is not signed by the key given (%w): name the key that has signed it with --previous-key, or publish into another folder", err)
}
