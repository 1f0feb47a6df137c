package repository

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/version"
)

// architectures that the repository has, as the two kinds of packages call them.
var architectures = []struct{ deb, rpm string }{{"amd64", "x86_64"}, {"arm64", "aarch64"}}

// names of the packages that the repository takes: this project's.
var names = []string{"teleport-update", "teleport-find"}

// pkg is one package file.
type pkg struct {
	path    string // in the repository
	name    string
	version string // semver
	size    int64
	sha256  string
	arch    string      // as its own kind calls it
	control string      // of a deb
	rpm     *xmlPackage // what an rpm says of itself
	// unsigned is the digest of what a signature of an rpm covers, or of all of a
	// deb: it is the same whoever signs.
	unsigned string
	// content is nil for what is in the repository already.
	content []byte
}

// readPackage reads a deb or an rpm and gives it the path that it has in the
// repository, which follows from what it holds, not from its name.
func readPackage(file string) (*pkg, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p := &pkg{}
	if filepath.Ext(file) == ".rpm" {
		err = p.fromRPM(data)
	} else {
		err = p.fromDeb(data)
	}
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", file, err)
	}
	return p, nil
}

func (p *pkg) fromDeb(data []byte) (err error) {
	if p.control, err = readControl(data); err != nil {
		return err
	}
	p.name, p.arch = field(p.control, "Package"), field(p.control, "Architecture")
	v := field(p.control, "Version")
	p.path = path.Join(aptPool, fmt.Sprintf("%s_%s_%s.deb", p.name, v, p.arch))
	p.setContent(data)
	p.unsigned = p.sha256
	return p.check(v)
}

func (p *pkg) fromRPM(data []byte) error {
	parsed, err := parseRPM(data)
	if err != nil {
		return err
	}
	p.rpm = describe(parsed)
	p.name, p.arch = p.rpm.Name, p.rpm.Arch
	p.path = path.Join(yumFolder, p.arch, fmt.Sprintf("%s-%s-%s.%s.rpm", p.name, p.rpm.Version.Ver, p.rpm.Version.Rel, p.arch))
	p.setContent(data)
	p.unsigned = hexSum(parsed.content())
	return p.check(p.rpm.Version.Ver)
}

// setContent also describes the bytes.
func (p *pkg) setContent(data []byte) {
	p.content, p.size, p.sha256 = data, int64(len(data)), hexSum(data)
}

// sign signs an rpm; a deb is signed by the index that names it.
func (p *pkg) sign(key Signer) error {
	if p.rpm == nil {
		return nil
	}
	parsed, err := parseRPM(p.content)
	if err != nil {
		return err
	}
	signed, err := parsed.signed(key)
	if err != nil {
		return err
	}
	if parsed, err = parseRPM(signed); err != nil {
		return err
	}
	p.rpm = describe(parsed)
	p.setContent(signed)
	return nil
}

// check also sets the version: as semver writes it, see package packaging.
func (p *pkg) check(v string) (err error) {
	if !slices.Contains(names, p.name) {
		return fmt.Errorf("it is %q; the repository takes only %s", p.name, strings.Join(names, " and "))
	}
	for _, a := range architectures {
		if p.arch == a.deb && p.rpm == nil || p.arch == a.rpm && p.rpm != nil {
			p.version, err = version.Parse(strings.Replace(v, "~", "-", 1))
			return err
		}
	}
	return fmt.Errorf("it is for %q, an architecture that the repository does not have", p.arch)
}

// newest drops all but so many versions of each package; 0 keeps all.
func newest(packages []*pkg, keep int) []*pkg {
	if keep == 0 {
		return packages
	}
	versions := make(map[string][]string)
	key := func(p *pkg) string { return path.Dir(p.path) + " " + p.name + " " + p.arch }
	for _, p := range packages {
		versions[key(p)] = append(versions[key(p)], p.version)
	}
	for k, all := range versions {
		slices.SortFunc(all, func(a, b string) int { return version.Compare(b, a) })
		versions[k] = all[:min(keep, len(all))]
	}
	return slices.DeleteFunc(packages, func(p *pkg) bool { return !slices.Contains(versions[key(p)], p.version) })
}
