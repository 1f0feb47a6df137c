package repository

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tags of the header.
const (
	tagName              = 1000
	tagVersion           = 1001
	tagRelease           = 1002
	tagEpoch             = 1003
	tagSummary           = 1004
	tagDescription       = 1005
	tagBuildTime         = 1006
	tagBuildHost         = 1007
	tagSize              = 1009
	tagVendor            = 1011
	tagLicense           = 1014
	tagPackager          = 1015
	tagGroup             = 1016
	tagURL               = 1020
	tagArch              = 1022
	tagFileModes         = 1030
	tagFileFlags         = 1037
	tagSourceRPM         = 1044
	tagDirIndexes        = 1116
	tagBaseNames         = 1117
	tagDirNames          = 1118
	tagPayloadDigest     = 5092
	tagPayloadDigestAlgo = 5093
)

// Relations to other packages: the tags of their names, flags and versions.
var (
	provides   = relationTags{1047, 1112, 1113}
	requires   = relationTags{1049, 1048, 1050}
	conflicts  = relationTags{1054, 1053, 1055}
	obsoletes  = relationTags{1090, 1114, 1115}
	recommends = relationTags{5046, 5048, 5047}
	suggests   = relationTags{5049, 5051, 5050}
)

type relationTags struct{ names, flags, versions uint32 }

// describe is what dnf's first index tells of a package, with all of its files: all
// that the package itself says.
func describe(p *rpm) *xmlPackage {
	h := p.header
	built := h.number(tagBuildTime)
	return &xmlPackage{
		Kind: "rpm", Name: h.text(tagName), Arch: h.text(tagArch),
		Version: xmlVersion{strconv.FormatUint(h.number(tagEpoch), 10), h.text(tagVersion), h.text(tagRelease)},
		Summary: h.text(tagSummary), Description: h.text(tagDescription), Packager: h.text(tagPackager), URL: h.text(tagURL),
		// The file's own time would make the index of the same packages another one.
		Time: xmlTime{built, built},
		Size: xmlSize{Installed: h.number(tagSize), Archive: p.signature.number(sigPayloadSize)},
		Format: xmlFormat{
			License: h.text(tagLicense), Vendor: h.text(tagVendor), Group: h.text(tagGroup), BuildHost: h.text(tagBuildHost), SourceRPM: h.text(tagSourceRPM),
			HeaderRange: xmlRange{p.start, p.end},
			Provides:    h.relations(provides), Requires: h.relations(requires), Conflicts: h.relations(conflicts),
			Obsoletes: h.relations(obsoletes), Suggests: h.relations(suggests), Recommends: h.relations(recommends),
			Files: h.files(),
		},
	}
}

// relations leaves out what rpm itself has to be able to do, as createrepo does,
// and what was said already.
func (h *rpmHeader) relations(tags relationTags) *xmlEntries {
	const less, greater, equal, script = 1 << 1, 1 << 2, 1 << 3, 1<<6 | 1<<9 | 1<<10
	flags, versions := h.numbers(tags.flags), h.texts(tags.versions)
	var all []xmlEntry
	for i, name := range h.texts(tags.names) {
		if strings.HasPrefix(name, "rpmlib(") || i >= len(flags) || i >= len(versions) {
			continue
		}
		r := xmlEntry{Name: name}
		if tags == requires && flags[i]&script != 0 {
			r.Pre = "1"
		}
		r.Flags = map[uint64]string{less: "LT", greater: "GT", equal: "EQ", less | equal: "LE", greater | equal: "GE"}[flags[i]&(less|greater|equal)]
		if r.Flags != "" {
			r.Epoch, r.Ver, r.Rel = parseEVR(versions[i])
		}
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	if all == nil {
		return nil
	}
	return &xmlEntries{all}
}

// parseEVR reads [EPOCH:]VERSION[-RELEASE].
func parseEVR(s string) (epoch, version, release string) {
	epoch, rest, ok := strings.Cut(s, ":")
	if !ok {
		epoch, rest = "0", s
	}
	version, release, _ = strings.Cut(rest, "-")
	return epoch, version, release
}

func (h *rpmHeader) files() (all []xmlFile) {
	const ghost, formatMask, folder = 1 << 6, 0o170000, 0o040000
	dirs, indexes, modes, flags := h.texts(tagDirNames), h.numbers(tagDirIndexes), h.numbers(tagFileModes), h.numbers(tagFileFlags)
	for i, base := range h.texts(tagBaseNames) {
		if i >= len(indexes) || i >= len(modes) || indexes[i] >= uint64(len(dirs)) {
			continue
		}
		f := xmlFile{Path: path.Join(dirs[indexes[i]], base)}
		switch {
		case modes[i]&formatMask == folder:
			f.Kind = "dir"
		case i < len(flags) && flags[i]&ghost != 0:
			f.Kind = "ghost"
		}
		all = append(all, f)
	}
	return all
}
