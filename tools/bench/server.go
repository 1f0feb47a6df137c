package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// server serves the tarballs over loopback http: under /full/ as fast as it can,
// under /N/ at N MiB/s.
type server struct {
	http.Server
	url   string
	files http.Handler
	dir   string
}

func serve(in inputs) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + listener.Addr().String(), dir: filepath.Dir(in.gzip)}
	s.files = http.FileServer(http.Dir(s.dir))
	s.Handler = http.HandlerFunc(s.answer)
	go s.Serve(listener)
	return s, nil
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	speed, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if speed == "full" || strings.HasSuffix(name, ".sha256") {
		r.URL.Path = "/" + name
		s.files.ServeHTTP(w, r)
		return
	}
	rate, err := strconv.Atoi(speed)
	f, openErr := os.Open(filepath.Join(s.dir, filepath.Base(name)))
	if err != nil || openErr != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(info.Size()))
	pace(w, f, int64(rate)<<20)
}

// pace copies at a rate in bytes per second, in small pieces.
func pace(w io.Writer, r io.Reader, rate int64) {
	const piece = 64 << 10
	buf := make([]byte, piece)
	var sent int64
	for start := time.Now(); ; {
		n, err := io.ReadFull(r, buf)
		if _, writeErr := w.Write(buf[:n]); writeErr != nil || err != nil {
			return
		}
		sent += int64(n)
		due := time.Duration(float64(sent) / float64(rate) * float64(time.Second))
		time.Sleep(due - time.Since(start))
	}
}
