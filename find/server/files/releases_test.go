package files_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/find/server"
	"teleport-update/find/server/files"
	"teleport-update/find/server/parts"
)

func TestReleasesServeChecksums(t *testing.T) {
	dir, url := serveReleases(t)
	content := []byte("one")
	write(t, dir, tarball, content)
	line := func(content string) string { return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), tarball) }
	check := func(want string) {
		t.Helper()
		resp, body := get(t, url+tarball+".sha256")
		if resp.StatusCode != 200 || body != want || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") || resp.Header.Get("ETag") == "" {
			t.Errorf("%s %v: %q; want %q", resp.Status, resp.Header, body, want)
		}
	}
	check(line("one"))

	// In place, and as old and as large as it was: the same file by all signs,
	// which shows that the checksum was not computed again.
	info, err := os.Stat(filepath.Join(dir, tarball))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, tarball), []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, tarball), time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	check(line("one"))

	if err := os.Chtimes(filepath.Join(dir, tarball), time.Time{}, info.ModTime().Add(time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	check(line("two"))
	write(t, dir, tarball, []byte("three")) // a new file under the name
	check(line("three"))
	write(t, dir, tarball+".sha256", []byte("as the operator says\n"))
	check("as the operator says\n")
}

const tarball = "teleport-ent-v15.1.1-linux-amd64-bin.tar.gz"

func TestReleasesServeRanges(t *testing.T) {
	dir, url := serveReleases(t)
	content := random(3 << 20)
	write(t, dir, tarball, content)
	resp, body := get(t, url+tarball)
	if resp.StatusCode != 200 || body != string(content) {
		t.Fatalf("%s, %d bytes", resp.Status, len(body))
	}
	etag := resp.Header.Get("ETag")
	for name, want := range map[string]string{"Content-Type": "application/gzip", "Content-Encoding": "", "Accept-Ranges": "bytes"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(etag, `"`) {
		t.Errorf("the entity tag is not strong: %s", etag)
	}

	size := len(content)
	for _, tc := range []struct {
		name   string
		method string
		header http.Header
		status int
		from   int // of content, up to its end; -1: no body
		ranged string
	}{
		{"HEAD", "HEAD", nil, 200, -1, ""},
		{"the rest", "GET", http.Header{"Range": {"bytes=1000000-"}}, 206, 1000000, fmt.Sprintf("bytes 1000000-%d/%d", size-1, size)},
		{"the last bytes", "GET", http.Header{"Range": {"bytes=-5"}}, 206, size - 5, fmt.Sprintf("bytes %d-%d/%d", size-5, size-1, size)},
		{"HEAD of a range", "HEAD", http.Header{"Range": {"bytes=-5"}}, 206, -1, fmt.Sprintf("bytes %d-%d/%d", size-5, size-1, size)},
		{"beyond the end", "GET", http.Header{"Range": {fmt.Sprintf("bytes=%d-", size)}}, 416, -1, fmt.Sprintf("bytes */%d", size)},
		{"the rest, if it is the same", "GET", http.Header{"Range": {"bytes=1000000-"}, "If-Range": {etag}}, 206, 1000000, fmt.Sprintf("bytes 1000000-%d/%d", size-1, size)},
		{"the rest, but of another file", "GET", http.Header{"Range": {"bytes=1000000-"}, "If-Range": {`"other"`}}, 200, 0, ""},
		{"only if it changed", "GET", http.Header{"If-None-Match": {etag}}, 304, -1, ""},
		{"only if it is the same", "GET", http.Header{"If-Match": {`"other"`}}, 412, -1, ""},
		{"no offer of compression is taken", "GET", http.Header{"Accept-Encoding": {"gzip"}}, 200, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, err := http.NewRequest(tc.method, url+tarball, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tc.header != nil {
				req.Header = tc.header
			}
			resp, body := do(t, req)
			if resp.StatusCode != tc.status || resp.Header.Get("Content-Range") != tc.ranged || resp.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s, headers %v", resp.Status, resp.Header)
			}
			if tc.from >= 0 && body != string(content[tc.from:]) {
				t.Errorf("%d bytes are not those from %d", len(body), tc.from)
			}
			if tc.method == "HEAD" && tc.status == 200 && resp.ContentLength != int64(size) {
				t.Errorf("length %d", resp.ContentLength)
			}
		})
	}

	write(t, dir, tarball, content) // the same again is another file
	resp, _ = get(t, url+tarball)
	if now := resp.Header.Get("ETag"); now == etag {
		t.Errorf("a file that was replaced kept its entity tag %s", now)
	}
}

func TestReleasesOverTLSAndWithAccessLog(t *testing.T) {
	dir := t.TempDir()
	content := random(parts.BlockSize + 1000)
	write(t, dir, tarball, content)
	var log bytes.Buffer
	releases, err := files.OpenReleases(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer releases.Close()
	handler := server.New(server.Options{Releases: releases, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	web := httptest.NewTLSServer(handler)
	resp, err := web.Client().Get(web.URL + files.ReleasesPath + tarball)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(body, content) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	web.Close() // waits for the handler, and so for its line in the log
	if want := fmt.Sprintf("bytes=%d", len(content)); !strings.Contains(log.String(), want) {
		t.Errorf("no %s in %s", want, log.String())
	}
}

func TestReleasesServeNothingElse(t *testing.T) {
	dir, url := serveReleases(t)
	outside := t.TempDir()
	write(t, outside, "secret.tar.gz", []byte("secret"))
	write(t, filepath.Dir(dir), "beside.tar.gz", []byte("secret"))
	write(t, dir, ".hidden.tar.gz", []byte("secret"))
	write(t, dir, "ca.key", []byte("secret"))
	write(t, dir, "groups.yaml.sha256", []byte("secret"))
	write(t, dir, "good.tar.gz", []byte("good"))
	write(t, dir, "good.tar.gz.sig", []byte("good"))
	write(t, dir, "ca.key.sig", []byte("secret"))
	write(t, dir, ".hidden.tar.gz.sig", []byte("secret"))
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "folder.tar.gz"), 0o755),
		os.Symlink(filepath.Join(outside, "secret.tar.gz"), filepath.Join(dir, "out.tar.gz")),
		os.Symlink("../beside.tar.gz", filepath.Join(dir, "up.tar.gz")),
		os.Symlink("good.tar.gz", filepath.Join(dir, "alias.tgz")),
		syscall.Mkfifo(filepath.Join(dir, "pipe.tar.gz"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "folder.tar.gz"), "inner.tar.gz", []byte("secret"))

	for _, tc := range []struct {
		path   string
		status int
	}{
		{"good.tar.gz", 200},
		{"alias.tgz", 200},
		{"good.tar.gz.sig", 200},
		{"alias.tgz.sig", 404},
		{"missing.tar.gz.sig", 404},
		{"ca.key.sig", 404},
		{".hidden.tar.gz.sig", 404},
		{"good.tar.gz.sig.sig", 404},
		{"good.tar.gz.sha256.sig", 404},
		{".sig", 404},
		{"missing.tar.gz", 404},
		{"missing.tar.gz.sha256", 404},
		{"", 404},
		{".", 0},
		{"..", 0},
		{".hidden.tar.gz", 404},
		{".hidden.tar.gz.sha256", 404},
		{"%2ehidden.tar.gz", 404},
		{"ca.key", 404},
		{"ca.key.sha256", 404},
		{"groups.yaml.sha256", 404},
		{".sha256", 404},
		{".tar.gz", 404},
		{"folder.tar.gz", 404},
		{"folder.tar.gz/", 404},
		{"folder.tar.gz/inner.tar.gz", 404},
		{"folder.tar.gz%2finner.tar.gz", 404},
		{"folder.tar.gz.sha256", 404},
		{"pipe.tar.gz", 404},
		{"pipe.tar.gz.sha256", 404},
		{"out.tar.gz", 500},
		{"out.tar.gz.sha256", 500},
		{"up.tar.gz", 500},
		{"../beside.tar.gz", 0},
		{"..%2fbeside.tar.gz", 404},
		{"%2e%2e%2fbeside.tar.gz", 404},
		{"good.tar.gz%00", 404},
		{"good.tar.gz\\..\\ca.key", 404},
	} {
		t.Run(tc.path, func(t *testing.T) {
			status, body := raw(t, url, tc.path)
			// 0: whatever it is, net/http cleans such paths by a redirect.
			if tc.status != 0 && status != tc.status || tc.status == 0 && status == 200 {
				t.Errorf("status %d: %s", status, body)
			}
			if strings.Contains(body, "secret") || status == 200 && body != "good" {
				t.Errorf("served %q", body)
			}
		})
	}
}

func serveReleases(t *testing.T) (dir, url string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "releases")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	releases, err := files.OpenReleases(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { releases.Close() })
	web := httptest.NewServer(server.New(server.Options{Releases: releases, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(web.Close)
	return dir, web.URL + files.ReleasesPath
}

// raw asks for a path as it is, which no http.Client would.
func raw(t *testing.T, url, path string) (int, string) {
	t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), files.ReleasesPath)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", files.ReleasesPath, path)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func write(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func random(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}
