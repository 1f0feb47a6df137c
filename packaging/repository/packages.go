package repository

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teleport-update/internal/version"
)

// architectures of the repository, in the words of the two kinds of packages.
var architectures = []struct{ deb, rpm string }{{"amd64", "x86_64"}, {"arm64", "aarch64"}}

// names of this project's packages. The repository takes no others.
var names = []string{"teleport-update", "teleport-find"}

// pkg is one package file.
type pkg struct {
	path    string // in the repository
	name    string
	version string // semver
	arch    string // in the words of its kind
	sha256  string
	// unsigned is the digest of an rpm's header (which has its payload's digest) or of
	// a whole deb. It does not depend on signatures.
	unsigned string
	built    time.Time // of an rpm
	isRPM    bool
	isNew    bool   // it is not in the repository yet
	file     string // where it is now
}

// readPackage reads the fields of a deb or an rpm with dpkg-deb or rpm. Its path in the
// repository follows from them, not from the file's name.
func (s *stage) readPackage(ctx context.Context, file string) (*pkg, error) {
	p := &pkg{isRPM: filepath.Ext(file) == ".rpm", file: file}
	var err error
	if p.sha256, err = sumOfFile(file); err != nil {
		return nil, err
	}
	if p.isRPM {
		err = s.readRPM(ctx, p, file)
	} else {
		err = readDeb(ctx, p, file)
	}
	if err == nil {
		err = p.check()
	}
	return p, err
}

func readDeb(ctx context.Context, p *pkg, file string) error {
	out, err := program{args: []string{"dpkg-deb", "--show", "--showformat=${Package}\t${Version}\t${Architecture}", file}}.output(ctx)
	if err != nil {
		return err
	}
	fields := strings.Split(string(out), "\t")
	if len(fields) != 3 {
		return fmt.Errorf("dpkg-deb says %q of it, which is not understood", out)
	}
	p.name, p.version, p.arch = fields[0], fields[1], fields[2]
	p.path = path.Join(aptPool, fmt.Sprintf("%s_%s_%s.deb", p.name, p.version, p.arch))
	p.unsigned = p.sha256
	return nil
}

func (s *stage) readRPM(ctx context.Context, p *pkg, file string) error {
	const format = `%{NAME}\t%{VERSION}\t%{RELEASE}\t%{ARCH}\t%{SHA256HEADER}\t%{BUILDTIME}`
	out, err := s.rpm("rpm", "--query", "--package", "--nosignature", "--queryformat", format, file).output(ctx)
	if err != nil {
		return err
	}
	fields := strings.Split(string(out), "\t")
	if len(fields) != 6 {
		return fmt.Errorf("rpm says %q of it, which is not understood", out)
	}
	p.name, p.version, p.arch, p.unsigned = fields[0], fields[1], fields[3], fields[4]
	p.path = path.Join(yumFolder, p.arch, fmt.Sprintf("%s-%s-%s.%s.rpm", p.name, p.version, fields[2], p.arch))
	if len(p.unsigned) != len(p.sha256) {
		return fmt.Errorf("its header has no sha256 (rpm says %s): it was not built by make packages", p.unsigned)
	}
	built, err := strconv.ParseInt(fields[5], 10, 64)
	p.built = time.Unix(built, 0)
	return err
}

// check checks the fields, and converts the version to semver.
func (p *pkg) check() (err error) {
	if !slices.Contains(names, p.name) {
		return fmt.Errorf("it is %q; the repository takes only %s", p.name, strings.Join(names, " and "))
	}
	for _, a := range architectures {
		known := a.deb
		if p.isRPM {
			known = a.rpm
		}
		if p.arch == known {
			p.version, err = semver(p.version)
			return err
		}
	}
	return fmt.Errorf("it is for %q, an architecture that the repository does not have", p.arch)
}

// semver converts the version of a package, see package packaging.
func semver(v string) (string, error) { return version.Parse(strings.Replace(v, "~", "-", 1)) }

// versionIn returns the version in the path of a package, in the form of its kind. It
// works for damaged packages, too.
func versionIn(name string) string {
	base := path.Base(name)
	for _, n := range names {
		if rest, ok := strings.CutPrefix(base, n+"_"); ok {
			v, _, _ := strings.Cut(rest, "_")
			return v
		}
		if rest, ok := strings.CutPrefix(base, n+"-"); ok {
			v, _, _ := strings.Cut(rest, "-")
			return v
		}
	}
	return ""
}

// newest keeps the newest versions of each package; 0 keeps all.
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
