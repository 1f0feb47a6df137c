package files

import (
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
)

// PackagesPath is the address of packages of the updater: it begins the path, and a
// file's name or ChecksumsName follows.
const PackagesPath = "/packages/"

// ChecksumsName is the list of all packages, in the form of sha256sum(1), sorted
// by version: the newest is the last one.
const ChecksumsName = "SHA256SUMS"

// Packages serves the updater's packages of one folder, and the list of them
// with their checksums, which are computed from the files. They are known by
// their names:
//
//	teleport-update_15.1.1_amd64.deb
//	teleport-update-15.1.1-1.x86_64.rpm
//	teleport-update-15.1.1-linux-amd64    the program alone
//
// and, beside each, its signatures, which the list does not have:
//
//	teleport-update_15.1.1_amd64.deb.asc    of an OpenPGP key
//	teleport-update_15.1.1_amd64.deb.sig    of an ECDSA key, in base64
//
// Nothing else of the folder is served. Files may come and go while the server
// runs.
type Packages struct {
	files *Releases
}

// OpenPackages returns the packages in dir.
func OpenPackages(dir string, log *slog.Logger) (*Packages, error) {
	files, err := OpenReleases(dir, log)
	if err != nil {
		return nil, fmt.Errorf("open the packages folder: %w", err)
	}
	return &Packages{files: files}, nil
}

// Close closes the folder.
func (p *Packages) Close() error { return p.files.Close() }

// ServeHTTP serves the file that the path value "name" names.
func (p *Packages) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := req.PathValue("name")
	if name == ChecksumsName {
		p.serveChecksums(w, req)
		return
	}
	if _, ok := packageVersion(signedName(name)); !ok {
		http.NotFound(w, req)
		return
	}
	f, info, err := openRegular(p.files.root, name)
	if err != nil {
		p.files.refuse(w, name, err)
		return
	}
	defer f.Close()
	serve(w, req, f, "application/octet-stream", parts.Identify(info).Etag(), info.ModTime())
}

func (p *Packages) serveChecksums(w http.ResponseWriter, req *http.Request) {
	names, err := p.names()
	if err != nil {
		p.files.refuse(w, ChecksumsName, err)
		return
	}
	var list strings.Builder
	for _, name := range names {
		f, info, err := openRegular(p.files.root, name)
		if err != nil {
			continue // gone meanwhile, or not a file
		}
		sum, err := p.files.digests.get(req.Context(), name, f, info)
		if err != nil {
			p.files.refuse(w, name, err)
			return
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, name)
	}
	header := w.Header()
	header["Content-Type"] = parts.PlainText
	header["Cache-Control"] = parts.NoStore
	w.Write([]byte(list.String()))
}

// names lists the packages, the oldest first.
func (p *Packages) names() ([]string, error) {
	entries, err := fs.ReadDir(p.files.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list the packages folder: %w", err)
	}
	versions := make(map[string]string)
	var names []string
	for _, entry := range entries {
		if v, ok := packageVersion(entry.Name()); ok && signedName(entry.Name()) == entry.Name() {
			versions[entry.Name()] = v
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(version.Compare(versions[a], versions[b]), strings.Compare(a, b))
	})
	return names, nil
}

// signedName returns the package of a signature, or the name itself.
func signedName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".asc"), ".sig")
}

// packageVersion reads the version in the name of a package, in semver form: packages
// have a "~" in the place of its first "-".
func packageVersion(name string) (string, bool) {
	if strings.Trim(name, parts.Letters+"._+~-") != "" {
		return "", false
	}
	var v string
	if rest, ok := cutBoth(name, "teleport-update_", ".deb"); ok {
		v, _, _ = strings.Cut(rest, "_")
	} else if rest, ok := cutBoth(name, "teleport-update-", ".rpm"); ok {
		v, _, _ = strings.Cut(rest, "-")
	} else if rest, ok := strings.CutPrefix(name, "teleport-update-"); ok {
		if v, _, ok = strings.Cut(rest, "-linux-"); !ok {
			return "", false
		}
	}
	v, err := version.Parse(strings.Replace(v, "~", "-", 1))
	return v, err == nil
}

func cutBoth(s, prefix, suffix string) (string, bool) {
	s, hasPrefix := strings.CutPrefix(s, prefix)
	s, hasSuffix := strings.CutSuffix(s, suffix)
	return s, hasPrefix && hasSuffix
}
