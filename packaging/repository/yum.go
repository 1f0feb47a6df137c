package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"path"
	"slices"
	"strings"
	"time"
)

// yumFolder holds one repository of rpms for each architecture, which dnf calls
// $basearch.
const yumFolder = "yum"

// yumIndex is one of the files that repomd.xml names. Its name has its digest in
// it, so it never changes.
type yumIndex struct {
	kind string // as in "primary"
	data []byte // compressed
	open []byte
}

func (i yumIndex) name() string {
	return hexSum(i.data) + "-" + i.kind + ".xml.gz"
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// yumIndexes describes the rpms of an architecture, which may have none.
func yumIndexes(packages []*pkg, arch string) ([]yumIndex, error) {
	primary := xmlPrimary{Common: "http://linux.duke.edu/metadata/common", RPM: "http://linux.duke.edu/metadata/rpm"}
	lists := xmlLists{XMLName: xml.Name{Local: "filelists"}, Namespace: "http://linux.duke.edu/metadata/filelists"}
	other := xmlLists{XMLName: xml.Name{Local: "otherdata"}, Namespace: "http://linux.duke.edu/metadata/other"}
	for _, p := range packages {
		if p.rpm == nil || p.arch != arch {
			continue
		}
		primary.Packages = append(primary.Packages, xmlPackageOf(p))
		entry := xmlList{ID: p.sha256, Name: p.name, Arch: p.arch, Version: p.rpm.Version}
		other.Packages = append(other.Packages, entry)
		entry.Files = p.rpm.Format.Files
		lists.Packages = append(lists.Packages, entry)
	}
	primary.Count, lists.Count, other.Count = len(primary.Packages), len(lists.Packages), len(other.Packages)
	var all []yumIndex
	for _, index := range []struct {
		kind  string
		value any
	}{{"primary", primary}, {"filelists", lists}, {"other", other}} {
		text, err := xml.Marshal(index.value)
		if err != nil {
			return nil, err
		}
		text = append([]byte(xml.Header), append(text, '\n')...)
		all = append(all, yumIndex{index.kind, zipped(text), text})
	}
	return all, nil
}

// repomd is the file that is signed for dnf.
func repomd(indexes []yumIndex, date time.Time) ([]byte, error) {
	m := xmlRepomd{Namespace: "http://linux.duke.edu/metadata/repo", RPM: "http://linux.duke.edu/metadata/rpm", Revision: date.Unix()}
	for _, i := range indexes {
		m.Data = append(m.Data, xmlData{
			Kind: i.kind, Checksum: xmlChecksum{Kind: "sha256", Sum: hexSum(i.data)}, OpenChecksum: xmlChecksum{Kind: "sha256", Sum: hexSum(i.open)},
			Location: xmlLocation{path.Join("repodata", i.name())}, Timestamp: date.Unix(), Size: len(i.data), OpenSize: len(i.open),
		})
	}
	text, err := xml.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}

// parseRepomd returns what repomd was made from: the names of the indexes, and the
// digest of the one that names the packages.
func parseRepomd(text []byte) (names []string, primary xmlData, date time.Time, err error) {
	var m xmlRepomd
	if err := xml.Unmarshal(text, &m); err != nil {
		return nil, primary, time.Time{}, err
	}
	for _, d := range m.Data {
		names = append(names, path.Base(d.Location.Href))
		if d.Kind == "primary" {
			primary = d
		}
	}
	if primary.Kind == "" {
		return nil, primary, time.Time{}, errors.New("it names no index of packages")
	}
	return names, primary, time.Unix(m.Revision, 0), nil
}

// parsePrimary returns the digests of the packages in an index, by their paths in
// the repository.
func parsePrimary(text []byte, arch string) (map[string]string, error) {
	var m struct {
		Packages []struct {
			Checksum xmlChecksum `xml:"checksum"`
			Location xmlLocation `xml:"location"`
		} `xml:"package"`
	}
	if err := xml.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	digests := make(map[string]string)
	for _, p := range m.Packages {
		digests[path.Join(yumFolder, arch, p.Location.Href)] = p.Checksum.Sum
	}
	return digests, nil
}

// xmlPackageOf is an rpm in the first index, which also tells of the file. Of the files
// in it that index has those that others may require by their path, so that most hosts
// need not fetch the second.
func xmlPackageOf(p *pkg) xmlPackage {
	x := *p.rpm
	x.Checksum, x.Size.Package, x.Location = xmlChecksum{"sha256", "YES", p.sha256}, p.size, xmlLocation{path.Base(p.path)}
	x.Format.Files = slices.DeleteFunc(slices.Clone(x.Format.Files), func(f xmlFile) bool {
		return !strings.HasPrefix(f.Path, "/etc/") && !strings.Contains(f.Path, "bin/") && f.Path != "/usr/lib/sendmail"
	})
	return x
}
