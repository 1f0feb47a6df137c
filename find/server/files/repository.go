package files

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/find/server/parts"
)

// Repository serves the apt and yum repositories of one folder, which package
// packaging/publish.sh makes, and the files to configure hosts:
//
//	GET /apt/…, /yum/…
//	GET /teleport-update.asc, /teleport-update.sources, /teleport-update.repo
//
// Nothing else of the folder is served, and nothing outside it: no names that start
// with a dot (files that are being written), no folders, no lists of them, and no
// symbolic links that lead out of it. The folder may be exchanged while the server
// runs, or be a link that is exchanged.
type Repository struct {
	dir  string
	log  *slog.Logger
	rare *slog.Logger // for entries that anybody can cause
}

// The folders of a repository, one of which is enough, and its other files.
var (
	repositoryFolders = []string{"apt", "yum"}
	repositoryFiles   = []string{"teleport-update.asc", "teleport-update.sources", "teleport-update.repo"}
)

// OpenRepository returns the repositories in dir.
func OpenRepository(dir string, log *slog.Logger) (*Repository, error) {
	for _, name := range repositoryFolders {
		if info, err := os.Stat(path.Join(dir, name)); err == nil && info.IsDir() {
			return &Repository{dir: dir, log: log, rare: parts.Rare(log)}, nil
		}
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open the repository: %w", err)
	}
	return nil, fmt.Errorf("open the repository: %s has neither apt nor yum in it", dir)
}

// Wrap returns a handler that serves the repository, and passes other requests to next.
func (r *Repository) Wrap(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	own := parts.LogAccess(parts.LimitBody(r), r.log, slog.LevelDebug)
	for _, name := range repositoryFolders {
		mux.Handle("GET /"+name+"/", own)
	}
	for _, name := range repositoryFiles {
		mux.Handle("GET /"+name, own)
	}
	return mux
}

// ServeHTTP serves the file at the path of the URL.
func (r *Repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := strings.TrimPrefix(req.URL.Path, "/")
	if !isServed(name) {
		http.NotFound(w, req)
		return
	}
	f, info, err := r.open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENAMETOOLONG) {
		http.NotFound(w, req)
		return
	}
	if err != nil { // no permission, a link that leads out of the folder, a disk that fails
		r.rare.Warn("a file of the repository cannot be read", "name", name, "error", err)
		http.Error(w, "the file cannot be read", http.StatusInternalServerError)
		return
	}
	defer f.Close()
	w.Header().Set("Cache-Control", cacheControl(name))
	serve(w, exactly(req, info.ModTime()), f, contentTypeOf(name), parts.Identify(info).Etag(), settled(info.ModTime(), time.Now()))
}

// open opens a regular file below the folder that r.dir names now.
func (r *Repository) open(name string) (*os.File, os.FileInfo, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	return openRegular(root, name)
}

// isServed reports whether a path may belong to a file of a repository.
func isServed(name string) bool {
	first, rest, below := strings.Cut(name, "/")
	if !below {
		return slices.Contains(repositoryFiles, name)
	}
	if !slices.Contains(repositoryFolders, first) {
		return false
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if segment == "" || segment[0] == '.' || strings.Trim(segment, parts.Letters+"._+~-") != "" {
			return false
		}
	}
	return true
}

var namedByDigest = regexp.MustCompile(`/by-hash/[A-Z0-9]+/[0-9a-f]+$|/repodata/[0-9a-f]{64}-[^/]+$`)

// cacheControl returns for how long caches between hosts and server may answer
// themselves. A file named by its digest never changes. A package is never published
// with another content either, but somebody may begin a repository anew. Clients must
// ask for all other files each time, since they need the newest.
func cacheControl(name string) string {
	switch {
	case namedByDigest.MatchString(name):
		return "public, max-age=31536000, immutable"
	case strings.HasSuffix(name, ".deb") || strings.HasSuffix(name, ".rpm"):
		return "public, max-age=86400"
	}
	return "no-cache"
}

func contentTypeOf(name string) string {
	switch path.Ext(name) {
	case ".deb":
		return "application/vnd.debian.binary-package"
	case ".rpm":
		return "application/x-rpm"
	case ".gz":
		return "application/gzip"
	case ".xml":
		return "application/xml"
	case "", ".asc", ".sources", ".repo": // InRelease, Packages: text for people, too
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// exactly removes If-Modified-Since unless it is the exact time of the file: a
// repository that was restored from a copy has older files, and apt knows no entity
// tags.
func exactly(req *http.Request, modified time.Time) *http.Request {
	since := req.Header.Get("If-Modified-Since")
	if at, err := http.ParseTime(since); since == "" || err == nil && at.Equal(modified.Truncate(time.Second)) {
		return req
	}
	other := req.Clone(req.Context())
	other.Header.Del("If-Modified-Since")
	return other
}

// settled returns no time for a file that changed in the last two seconds: a later
// change may have the same time (RFC 9110, 8.8.2.2).
func settled(modified, now time.Time) time.Time {
	if now.Sub(modified) < 2*time.Second {
		return time.Time{}
	}
	return modified
}
