package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"path"
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
		entry := xmlList{ID: p.sha256, Name: p.name, Arch: p.arch, Version: xmlVersion(p.rpm.Version)}
		other.Packages = append(other.Packages, entry)
		entry.Files = xmlFiles(p.rpm.Files, false)
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

func xmlPackageOf(p *pkg) xmlPackage {
	r := p.rpm
	return xmlPackage{
		Kind: "rpm", Name: r.Name, Arch: r.Arch, Version: xmlVersion(r.Version), Checksum: xmlChecksum{"sha256", "YES", p.sha256},
		Summary: r.Summary, Description: r.Description, Packager: r.Packager, URL: r.URL,
		// The file's own time would make the index of the same packages another one.
		Time: xmlTime{r.BuildTime, r.BuildTime}, Size: xmlSize{p.size, r.InstalledSize, r.ArchiveSize}, Location: xmlLocation{path.Base(p.path)},
		Format: xmlFormat{
			License: r.License, Vendor: r.Vendor, Group: r.Group, BuildHost: r.BuildHost, SourceRPM: r.SourceRPM,
			HeaderRange: xmlRange{r.HeaderStart, r.HeaderEnd},
			Provides:    xmlRelations(r.Provides), Requires: xmlRelations(r.Requires), Conflicts: xmlRelations(r.Conflicts),
			Obsoletes: xmlRelations(r.Obsoletes), Suggests: xmlRelations(r.Suggests), Recommends: xmlRelations(r.Recommends),
			Files: xmlFiles(r.Files, true),
		},
	}
}

func xmlRelations(all []relation) *xmlEntries {
	if len(all) == 0 {
		return nil
	}
	entries := &xmlEntries{}
	for _, r := range all {
		e := xmlEntry{Name: r.Name, Flags: r.Flags, Epoch: r.Version.Epoch, Ver: r.Version.Ver, Rel: r.Version.Rel}
		if r.Pre {
			e.Pre = "1"
		}
		entries.Entries = append(entries.Entries, e)
	}
	return entries
}

// xmlFiles is all files, or those that others may require by their path, which are
// in the first index so that most hosts need not fetch the second.
func xmlFiles(files []rpmFile, primary bool) (all []xmlFile) {
	for _, f := range files {
		if !primary || strings.HasPrefix(f.Path, "/etc/") || strings.Contains(f.Path, "bin/") || f.Path == "/usr/lib/sendmail" {
			all = append(all, xmlFile{f.Kind, f.Path})
		}
	}
	return all
}
