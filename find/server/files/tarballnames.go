package files

import (
	"fmt"
	"strings"

	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
)

// NameTemplate is the name of a release's tarball, in the language of the updater's URL
// templates. Teleport's own releases use it.
const NameTemplate = `teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}{{if .FIPS}}-fips{{end}}-bin.tar.gz`

// Name fills NameTemplate for a release, a system and an architecture, as Go names
// them.
func Name(v string, e version.Edition, os, arch string) string {
	name, suffix := "teleport", ""
	if e.Enterprise() {
		name = "teleport-ent"
	}
	if e.FIPS() {
		suffix = "-fips"
	}
	return fmt.Sprintf("%s-v%s-%s-%s%s-bin.tar.gz", name, v, os, arch, suffix)
}

// tarballTypes are the served file types with their content types. They get no
// Content-Encoding: the compressed file is the thing itself.
var tarballTypes = map[string]string{
	".tar.gz":  "application/gzip",
	".tgz":     "application/gzip",
	".tar.zst": "application/zstd",
	".tzst":    "application/zstd",
}

// IsTarball reports whether a file of that name is served as a tarball of a release.
func IsTarball(name string) bool {
	_, ok := tarballType(name)
	return ok
}

func tarballType(name string) (string, bool) {
	if name == "" || !strings.ContainsRune(parts.Letters, rune(name[0])) {
		return "", false
	}
	if strings.Trim(name, parts.Letters+"._+~-") != "" {
		return "", false
	}
	for suffix, contentType := range tarballTypes {
		if strings.HasSuffix(name, suffix) {
			return contentType, true
		}
	}
	return "", false
}

// release is the content of a tarball's name.
type release struct {
	version string
	edition version.Edition
	system  string // and architecture, as linux-amd64
	name    string
	whole   bool // its checksum is there
}

// ReleaseOf returns the version and the edition in the name of a tarball, if NameTemplate
// gives such a name.
func ReleaseOf(name string) (v string, e version.Edition, ok bool) {
	r, ok := parseName(name)
	return r.version, r.edition, ok
}

// parseName reads names in the form of NameTemplate.
func parseName(name string) (release, bool) {
	rest, ok := strings.CutPrefix(name, "teleport-")
	if !ok {
		return release{}, false
	}
	if rest, ok = strings.CutSuffix(rest, "-bin.tar.gz"); !ok {
		return release{}, false
	}
	edition := version.OSS
	if inner, ok := strings.CutPrefix(rest, "ent-"); ok {
		rest, edition = inner, version.Enterprise
	}
	if inner, ok := strings.CutSuffix(rest, "-fips"); ok {
		if edition != version.Enterprise {
			return release{}, false
		}
		rest, edition = inner, version.FIPS
	}
	whole := rest
	for range 2 { // the architecture and the system; a version may hold dashes itself
		i := strings.LastIndexByte(rest, '-')
		if i < 0 {
			return release{}, false
		}
		rest = rest[:i]
	}
	if !strings.HasPrefix(rest, "v") {
		return release{}, false
	}
	parsed, err := version.Parse(rest)
	return release{version: parsed, edition: edition, system: strings.TrimPrefix(whole[len(rest):], "-")}, err == nil
}
