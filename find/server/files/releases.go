// Package files serves what hosts download: releases of the agent, packages of the updater, and package
// repositories. Each serves the files of one folder, of known names, and nothing outside of it; files may come
// and go meanwhile.
package files

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

	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
	"teleport-update/versions/signature"
)

// ReleasesPath begins the address of a release; a file's name follows.
const ReleasesPath = "/releases/"

const checksumSuffix = ".sha256"

// Releases serves the tarballs of one folder, with ranges and strong entity tags.
// Beside each it serves a .sha256, from the file of that name or else computed, and the
// .sig if there is one.
//
// Nothing else of the folder is served, and nothing outside it: no names
// starting with a dot, no other kinds of file, no folders, and no symbolic
// links that lead out of it.
type Releases struct {
	root    *os.Root
	log     *slog.Logger
	rare    *slog.Logger // for entries that anybody can cause
	digests digests
}

// OpenReleases returns the releases in dir.
func OpenReleases(dir string, log *slog.Logger) (*Releases, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the releases folder: %w", err)
	}
	return &Releases{root: root, log: log, rare: parts.Rare(log)}, nil
}

// Close closes the folder.
func (r *Releases) Close() error { return r.root.Close() }

// Has reports whether there is a release, for any system, of a version and edition.
func (r *Releases) Has(v string, e version.Edition) bool {
	found, err := r.list()
	return err == nil && slices.ContainsFunc(found, func(n release) bool { return n.whole && n.version == v && n.edition == e })
}

// Complete fills in an empty version and an empty edition from the folder: the newest
// version, and the edition of its release. Both stay empty if the folder has no answer.
// If there are several editions, that is an error.
//
// A release counts once its .sha256 is there: a tarball alone may still be being
// copied, and nobody has said which bytes it should have.
func (r *Releases) Complete(v string, e version.Edition) (string, version.Edition, error) {
	found, err := r.list()
	if err != nil {
		return "", "", err
	}
	if v == "" {
		found = slices.DeleteFunc(found, func(n release) bool { return !n.whole || e != "" && n.edition != e })
		v = newest(found)
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

// newest returns the newest version with tarballs for all architectures that its edition has tarballs for: a mirror may have
// brought only one architecture of a newer version. If no version has all, it is the newest version of all.
func newest(found []release) (v string) {
	systems, of := make(map[version.Edition]map[string]bool), make(map[[2]string]map[string]bool)
	add := func(to map[string]bool, system string) map[string]bool {
		if to == nil {
			to = make(map[string]bool)
		}
		to[system] = true
		return to
	}
	for _, n := range found {
		key := [2]string{n.version, string(n.edition)}
		systems[n.edition], of[key] = add(systems[n.edition], n.system), add(of[key], n.system)
	}
	whole := slices.DeleteFunc(slices.Clone(found), func(n release) bool {
		return len(of[[2]string{n.version, string(n.edition)}]) < len(systems[n.edition])
	})
	for _, some := range [][]release{whole, found} {
		if len(some) > 0 {
			return slices.MaxFunc(some, func(a, b release) int { return version.Compare(a.version, b.version) }).version
		}
	}
	return ""
}

// EditionOf returns the edition of a version's tarballs, with or without checksum;
// empty if there are none.
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

// Unchecked returns the tarballs that do not count because their .sha256 is missing.
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
	if tarball == name {
		tarball = strings.TrimSuffix(name, signature.Suffix)
	}
	contentType, ok := tarballType(tarball)
	if !ok {
		http.NotFound(w, req)
		return
	}
	if tarball != name {
		contentType = "text/plain; charset=utf-8"
	}
	f, info, err := openRegular(r.root, name)
	if wantChecksum && errors.Is(err, fs.ErrNotExist) {
		r.serveDigest(w, req, tarball)
		return
	}
	if err != nil {
		r.refuse(w, name, err)
		return
	}
	defer f.Close()
	serve(w, req, f, contentType, parts.Identify(info).Etag(), info.ModTime())
}

func (r *Releases) serveDigest(w http.ResponseWriter, req *http.Request, tarball string) {
	f, info, err := openRegular(r.root, tarball)
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

// openRegular opens a file below a folder. It is fs.ErrNotExist if the name is that of anything but a regular file.
func openRegular(root *os.Root, name string) (*os.File, os.FileInfo, error) {
	// Without O_NONBLOCK a named pipe would hold the request for ever.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrNotExist
	}
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
	http.ServeContent(&parts.PatientWriter{ResponseWriter: w}, req, "", modified, content)
}

func (r *Releases) refuse(w http.ResponseWriter, name string, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENAMETOOLONG):
		http.Error(w, "there is no such release", http.StatusNotFound)
	case errors.Is(err, errChanging):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the file is being written", http.StatusServiceUnavailable)
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many checksums are being computed", http.StatusServiceUnavailable)
	case errors.Is(err, context.Canceled):
		// The client is gone.
	default: // no permission, a link that leads out of the folder, a disk that fails
		r.rare.Warn("a release cannot be read", "name", name, "error", err)
		http.Error(w, "the file cannot be read", http.StatusInternalServerError)
	}
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
