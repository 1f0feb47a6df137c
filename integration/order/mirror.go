package order

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	"teleport-update/find"
)

// template is the URL of a tarball at the mirror, behind its address.
const template = "/releases/{{ .Version }}/{{ .Edition }}.tar.gz"

// mirror is what the updater asks: find and the releases, on a loopback address.
type mirror struct {
	*httptest.Server

	mu  sync.Mutex
	out Outside
}

func newMirror() *mirror {
	m := &mirror{}
	m.Server = httptest.NewServer(m)
	return m
}

func (m *mirror) set(o Outside) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = o
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	out := m.out
	m.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/webapi/find") {
		if out.Down {
			http.Error(w, "down", http.StatusForbidden) // which nobody tries again
			return
		}
		body, err := find.Answer{Version: out.Target.Version, Edition: out.Target.Edition, AutoUpdate: out.Auto}.Body()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Write(body)
		return
	}
	for release, shelf := range out.Shelves {
		path := fmt.Sprintf("/releases/%s/%s.tar.gz", release.Version, release.Edition)
		rest, ok := strings.CutPrefix(r.URL.Path, path)
		if !ok || shelf.Missing {
			continue
		}
		ball := tarball(shelf.Build)
		sum := sha256.Sum256(ball)
		switch rest {
		case "":
			w.Header().Set("Content-Length", fmt.Sprint(len(ball)))
			w.Write(ball)
			return
		case ".sha256":
			fmt.Fprintf(w, "%x  teleport.tar.gz\n", sum)
			return
		}
	}
	http.NotFound(w, r)
}

var tarballs sync.Map // of Build: []byte

// tarball has the layout that Teleport's have.
func tarball(b Build) []byte {
	if ball, ok := tarballs.Load(b); ok {
		return ball.([]byte)
	}
	var buf bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	archive := tar.NewWriter(zip)
	top := "teleport/"
	if b.Release.Edition.Enterprise() {
		top = "teleport-ent/"
	}
	add := func(name string, mode int64, text string) {
		// Neither can fail on a buffer.
		_ = archive.WriteHeader(&tar.Header{Name: top + name, Mode: mode, Size: int64(len(text)), Typeflag: tar.TypeReg})
		_, _ = archive.Write([]byte(text))
	}
	add("VERSION", 0o644, b.Release.Version+"\n")
	add("examples/systemd/teleport.service", 0o644, unitOf(b.Release.Version))
	for _, name := range b.Files() {
		add(name, 0o755, b.text(name))
	}
	if b.Updater != "" {
		if data, err := os.ReadFile(b.Updater); err == nil {
			add("teleport-update", 0o755, string(data))
		}
	}
	archive.Close()
	zip.Close()
	tarballs.Store(b, buf.Bytes())
	return buf.Bytes()
}

// quiet is a cluster that wants the oldest release and has them all, sound.
func quiet() Outside {
	out := Outside{Target: Releases()[0], Auto: true, Shelves: map[Release]Shelf{}}
	for _, r := range Releases() {
		out.Shelves[r] = Shelf{Build: Build{Release: r, Runs: true}}
	}
	return out
}
