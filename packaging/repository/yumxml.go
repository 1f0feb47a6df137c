package repository

import "encoding/xml"

// The elements of dnf's indexes, in the order that createrepo writes them. A prefix
// is written as part of a name, which package xml allows; on the way back only names
// without one are read.

type xmlPrimary struct {
	XMLName  xml.Name     `xml:"metadata"`
	Common   string       `xml:"xmlns,attr"`
	RPM      string       `xml:"xmlns:rpm,attr"`
	Count    int          `xml:"packages,attr"`
	Packages []xmlPackage `xml:"package"`
}

type xmlPackage struct {
	Kind        string      `xml:"type,attr"`
	Name        string      `xml:"name"`
	Arch        string      `xml:"arch"`
	Version     xmlVersion  `xml:"version"`
	Checksum    xmlChecksum `xml:"checksum"`
	Summary     string      `xml:"summary"`
	Description string      `xml:"description"`
	Packager    string      `xml:"packager"`
	URL         string      `xml:"url"`
	Time        xmlTime     `xml:"time"`
	Size        xmlSize     `xml:"size"`
	Location    xmlLocation `xml:"location"`
	Format      xmlFormat   `xml:"format"`
}

type xmlVersion struct {
	Epoch string `xml:"epoch,attr"`
	Ver   string `xml:"ver,attr"`
	Rel   string `xml:"rel,attr"`
}

type xmlChecksum struct {
	Kind string `xml:"type,attr"`
	ID   string `xml:"pkgid,attr,omitempty"`
	Sum  string `xml:",chardata"`
}

type xmlTime struct {
	File  uint64 `xml:"file,attr"`
	Build uint64 `xml:"build,attr"`
}

type xmlSize struct {
	Package   int64  `xml:"package,attr"`
	Installed uint64 `xml:"installed,attr"`
	Archive   uint64 `xml:"archive,attr"`
}

type xmlLocation struct {
	Href string `xml:"href,attr"`
}

type xmlFormat struct {
	License     string      `xml:"rpm:license"`
	Vendor      string      `xml:"rpm:vendor"`
	Group       string      `xml:"rpm:group"`
	BuildHost   string      `xml:"rpm:buildhost"`
	SourceRPM   string      `xml:"rpm:sourcerpm"`
	HeaderRange xmlRange    `xml:"rpm:header-range"`
	Provides    *xmlEntries `xml:"rpm:provides"`
	Requires    *xmlEntries `xml:"rpm:requires"`
	Conflicts   *xmlEntries `xml:"rpm:conflicts"`
	Obsoletes   *xmlEntries `xml:"rpm:obsoletes"`
	Suggests    *xmlEntries `xml:"rpm:suggests"`
	Recommends  *xmlEntries `xml:"rpm:recommends"`
	Files       []xmlFile   `xml:"file"`
}

type xmlRange struct {
	Start int `xml:"start,attr"`
	End   int `xml:"end,attr"`
}

type xmlEntries struct {
	Entries []xmlEntry `xml:"rpm:entry"`
}

// xmlEntry is a relation to another package, as in "teleport", "GE".
type xmlEntry struct {
	Name  string `xml:"name,attr"`
	Flags string `xml:"flags,attr,omitempty"` // none: any version
	Epoch string `xml:"epoch,attr,omitempty"`
	Ver   string `xml:"ver,attr,omitempty"`
	Rel   string `xml:"rel,attr,omitempty"`
	Pre   string `xml:"pre,attr,omitempty"` // needed by a script of the package
}

type xmlFile struct {
	Kind string `xml:"type,attr,omitempty"` // "", "dir" or "ghost"
	Path string `xml:",chardata"`
}

// xmlLists is filelists.xml and other.xml, which differ in a name.
type xmlLists struct {
	XMLName   xml.Name
	Namespace string    `xml:"xmlns,attr"`
	Count     int       `xml:"packages,attr"`
	Packages  []xmlList `xml:"package"`
}

type xmlList struct {
	ID      string     `xml:"pkgid,attr"`
	Name    string     `xml:"name,attr"`
	Arch    string     `xml:"arch,attr"`
	Version xmlVersion `xml:"version"`
	Files   []xmlFile  `xml:"file"`
}

type xmlRepomd struct {
	XMLName   xml.Name  `xml:"repomd"`
	Namespace string    `xml:"xmlns,attr"`
	RPM       string    `xml:"xmlns:rpm,attr"`
	Revision  int64     `xml:"revision"`
	Data      []xmlData `xml:"data"`
}

type xmlData struct {
	Kind         string      `xml:"type,attr"`
	Checksum     xmlChecksum `xml:"checksum"`
	OpenChecksum xmlChecksum `xml:"open-checksum"`
	Location     xmlLocation `xml:"location"`
	Timestamp    int64       `xml:"timestamp"`
	Size         int         `xml:"size"`
	OpenSize     int         `xml:"open-size"`
}
