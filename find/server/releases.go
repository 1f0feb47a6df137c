package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/version"
)

// ReleasesPath is where releases are served: it and a file's name.
const ReleasesPath = "/releases/"

// NameTemplate is the name of a release's tarball, in the language of the
// updater's URL templates. It is that of Teleport's own releases.
const NameTemplate = `teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}{{if .FIPS}}-fips{{end}}-bin.tar.gz`

// Name is what NameTemplate makes of a release for a system and an
// architecture, as Go names them.
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

const checksumSuffix = ".sha256"

// tarballTypes are the files that are served, and as what. None of them gets a
// Content-Encoding: the compressed file is the thing itself.
var tarballTypes = map[string]string{
	".tar.gz":  "application/gzip",
	".tgz":     "application/gzip",
	".tar.zst": "application/zstd",
	".tzst":    "application/zstd",
}

// Releases serves the tarballs of one folder, with ranges and strong entity
// tags, and a .sha256 beside each: the file of that name where there is one,
// else computed.
//
// Nothing else of the folder is served, and nothing outside it: no names
// starting with a dot, no other kinds of file, no folders, and no symbolic
// links that lead out of it.
type Releases struct {
	root    *os.Root
	log     *slog.Logger
	digests digests
}

// OpenReleases returns the releases in dir.
func OpenReleases(dir string, log *slog.Logger) (*Releases, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the releases folder: %w", err)
	}
	return &Releases{root: root, log: log}, nil
}

// Close lets go of the folder.
func (r *Releases) Close() error { return r.root.Close() }

// Has reports whether there is a release, for any system, of a version and edition.
func (r *Releases) Has(v string, e version.Edition) bool {
	found, err := r.list()
	return err == nil && slices.ContainsFunc(found, func(n release) bool { return n.whole && n.version == v && n.edition == e })
}

// Complete fills in what is left empty of a version and an edition, from what
// there is: the newest version, and the edition that it has a release of. Both
// stay empty where the folder has nothing to say. More than one edition to
// choose from is an error.
//
// A release counts once its .sha256 is there: a tarball alone may be one that is
// still being copied, and nobody has said which bytes it should have.
func (r *Releases) Complete(v string, e version.Edition) (string, version.Edition, error) {
	found, err := r.list()
	if err != nil {
		return "", "", err
	}
	if v == "" {
		found = slices.DeleteFunc(found, func(n release) bool { return !n.whole || e != "" && n.edition != e })
		if len(found) > 0 {
			v = slices.MaxFunc(found, func(a, b release) int { return version.Compare(a.version, b.version) }).version
		}
	}
	if e != "" {
		return v, e, nil
	}
	e, err = editionOf(found, v)
	if err != nil {
		return "", "", err
	}
	return v, e, nil
}

// EditionOf returns the edition that there is a tarball of for a version, whole or
// not; empty where there is none.
func (r *Releases) EditionOf(v string) (version.Edition, error) {
	found, err := r.list()
	if err != nil {
		return "", err
	}
	return editionOf(found, v)
}

func editionOf(found []release, v string) (e version.Edition, err error) {
	for _, n := range found {
		switch {
		case n.version != v || n.edition == e:
		case e != "":
			return "", fmt.Errorf("there are tarballs of %s as %s and as %s: say which edition", v, e, n.edition)
		default:
			e = n.edition
		}
	}
	return e, nil
}

// Unchecked returns the tarballs that do not count, since their .sha256 is missing.
func (r *Releases) Unchecked() (names []string, err error) {
	found, err := r.list()
	for _, n := range found {
		if !n.whole {
			names = append(names, n.name)
		}
	}
	return names, err
}

// ServeHTTP serves the file that the path value "name" names.
func (r *Releases) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := req.PathValue("name")
	tarball, wantChecksum := strings.CutSuffix(name, checksumSuffix)
	contentType, ok := tarballType(tarball)
	if !ok {
		http.NotFound(w, req)
		return
	}
	if wantChecksum {
		contentType = "text/plain; charset=utf-8"
	}
	f, info, err := r.open(name)
	if wantChecksum && errors.Is(err, fs.ErrNotExist) {
		r.serveDigest(w, req, tarball)
		return
	}
	if err != nil {
		r.refuse(w, name, err)
		return
	}
	defer f.Close()
	serve(w, req, f, contentType, identify(info).etag(), info.ModTime())
}

func (r *Releases) serveDigest(w http.ResponseWriter, req *http.Request, tarball string) {
	f, info, err := r.open(tarball)
	if err != nil {
		r.refuse(w, tarball, err)
		return
	}
	sum, err := r.digests.get(req.Context(), tarball, f, info)
	if err != nil {
		r.refuse(w, tarball, err)
		return
	}
	// The form of sha256sum(1).
	content := strings.NewReader(sum + "  " + tarball + "\n")
	serve(w, req, content, "text/plain; charset=utf-8", `"`+sum+`"`, info.ModTime())
}

// open opens a regular file.
func (r *Releases) open(name string) (*os.File, os.FileInfo, error) {
	// Without O_NONBLOCK a named pipe would hold the request for ever.
	f, err := r.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func serve(w http.ResponseWriter, req *http.Request, content io.ReadSeeker, contentType, etag string, modified time.Time) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("ETag", etag)
	http.ServeContent(&patientWriter{ResponseWriter: w}, req, "", modified, content)
}

func (r *Releases) refuse(w http.ResponseWriter, name string, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "there is no such release", http.StatusNotFound)
	case errors.Is(err, errChanging):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the file is being written", http.StatusServiceUnavailable)
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many checksums are being computed", http.StatusServiceUnavailable)
	case errors.Is(err, context.Canceled):
		// Nobody waits for an answer any more.
	default: // no permission, a link that leads out of the folder, a disk that fails
		r.log.Warn("a release cannot be read", "name", name, "error", err)
		http.Error(w, "the file cannot be read", http.StatusInternalServerError)
	}
}

// IsTarball reports whether a file of that name is served as a release's tarball.
func IsTarball(name string) bool {
	_, ok := tarballType(name)
	return ok
}

func tarballType(name string) (string, bool) {
	if name == "" || !strings.ContainsRune(letters, rune(name[0])) {
		return "", false
	}
	if strings.Trim(name, letters+"._+~-") != "" {
		return "", false
	}
	for suffix, contentType := range tarballTypes {
		if strings.HasSuffix(name, suffix) {
			return contentType, true
		}
	}
	return "", false
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// release is what the name of a tarball says.
type release struct {
	version string
	edition version.Edition
	name    string
	whole   bool // its checksum is there
}

func (r *Releases) list() ([]release, error) {
	entries, err := fs.ReadDir(r.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list the releases folder: %w", err)
	}
	var found []release
	names := make(map[string]bool)
	for _, entry := range entries {
		names[entry.Name()] = true
		if n, ok := parseName(entry.Name()); ok {
			n.name = entry.Name()
			found = append(found, n)
		}
	}
	for i := range found {
		found[i].whole = names[found[i].name+checksumSuffix]
	}
	return found, nil
}

// ReleaseOf returns the version and the edition that the name of a tarball says, where it
// is one that NameTemplate gives.
func ReleaseOf(name string) (v string, e version.Edition, ok bool) {
	r, ok := parseName(name)
	return r.version, r.edition, ok
}

// parseName reads the names that NameTemplate gives.
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
	return release{version: parsed, edition: edition}, err == nil
}
