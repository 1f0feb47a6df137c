package repository

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"
)

// yumFolder holds one repository of rpms for each architecture, which dnf calls
// $basearch.
const yumFolder = "yum"

const (
	repodata   = "repodata"
	repomdName = "repomd.xml"
)

// yumIndexes indexes the rpms of an architecture, which may have none, and returns the
// files of repodata by name. All names but repomd.xml contain a digest, so these files
// never change.
func (s *stage) yumIndexes(ctx context.Context, packages []*pkg, arch string, date time.Time) (map[string][]byte, error) {
	folder := s.path(path.Join(yumFolder, arch))
	// yum of RHEL 7 reads gzip; only older yum needs databases.
	run := program{args: []string{
		"createrepo_c", "--quiet", "--error-exit-val", "--no-database", "--general-compress-type=gz", "--unique-md-filenames",
		"--checksum=sha256", "--revision=" + strconv.FormatInt(date.Unix(), 10), "--set-timestamp-to-revision", folder,
	}}
	if _, err := run.output(ctx); err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	entries, err := os.ReadDir(path.Join(folder, repodata))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(path.Join(folder, repodata, e.Name())); err != nil {
			return nil, err
		}
	}
	if err := checkRepomd(files, of(packages, true, arch), arch, date); err != nil {
		return nil, fmt.Errorf("createrepo_c's %s for %s: %w", repomdName, arch, err)
	}
	return files, nil
}

// checkRepomd checks that repomd.xml names all files, and that the index has the published packages.
func checkRepomd(files map[string][]byte, packages []*pkg, arch string, date time.Time) error {
	m, err := parseRepomd(files[repomdName])
	if err != nil {
		return err
	}
	if !m.date().Equal(date) {
		return fmt.Errorf("its date is %s, not %s", m.date(), date)
	}
	if len(m.Data) != len(files)-1 {
		return fmt.Errorf("it names %d files, and there are %d", len(m.Data), len(files)-1)
	}
	for _, d := range m.Data {
		if hexSum(files[d.name()]) != d.Checksum {
			return fmt.Errorf("it does not name %s as it is", d.name())
		}
	}
	named, err := parsePrimary(files[m.primary().name()], arch)
	if err != nil {
		return err
	}
	return compare(named, packages)
}

// indexes is the content of repomd.xml.
type indexes struct {
	Revision int64   `xml:"revision"`
	Data     []index `xml:"data"`
}

// index is one of the files that repomd.xml names.
type index struct {
	Kind     string   `xml:"type,attr"`
	Checksum string   `xml:"checksum"`
	Location location `xml:"location"`
}

type location struct {
	Href string `xml:"href,attr"`
}

func (i index) name() string { return path.Base(i.Location.Href) }

func (m *indexes) date() time.Time { return time.Unix(m.Revision, 0) }

// primary returns the index of packages. parseRepomd has checked that there is one.
func (m *indexes) primary() (found index) {
	for _, i := range m.Data {
		if i.Kind == "primary" {
			found = i
		}
	}
	return found
}

func parseRepomd(text []byte) (*indexes, error) {
	var m indexes
	if err := xml.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.primary().Kind == "" {
		return nil, errors.New("it names no index of packages")
	}
	return &m, nil
}

// parsePrimary returns the digests of the packages in an index, by path in the
// repository.
func parsePrimary(compressed []byte, arch string) (map[string]string, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, err
	}
	var m struct {
		Packages []struct {
			Checksum string   `xml:"checksum"`
			Location location `xml:"location"`
		} `xml:"package"`
	}
	if err := xml.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	digests := make(map[string]string)
	for _, p := range m.Packages {
		digests[path.Join(yumFolder, arch, p.Location.Href)] = p.Checksum
	}
	return digests, nil
}
