package files_test

import (
	"log/slog"
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
)

const (
	aDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	aDeb    = "apt/pool/teleport-update_1.0.0~rc.1_amd64.deb"
)

// repositoryFolder is a folder with what is served and with what must not be.
func repositoryFolder(t *testing.T) (dir string, served, hidden []string) {
	t.Helper()
	dir = t.TempDir()
	served = []string{
		"teleport-update.asc", "teleport-update.sources", "teleport-update.repo", aDeb,
		"apt/dists/stable/InRelease", "apt/dists/stable/Release.gpg", "apt/dists/stable/main/binary-amd64/Packages.gz",
		"apt/dists/stable/main/binary-amd64/by-hash/SHA256/" + aDigest,
		"yum/x86_64/teleport-update-1.0.0-1.x86_64.rpm", "yum/x86_64/repodata/repomd.xml", "yum/x86_64/repodata/" + aDigest + "-primary.xml.gz",
	}
	hidden = []string{
		".lock", "repository.key", "apt/.tmp-InRelease-ABCDEFGH", "yum/x86_64/.repodata.next/repomd.xml", "apt/pool/with space.deb",
	}
	for _, name := range append(served, hidden...) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, []byte("content of "+name))
		if err := os.Chtimes(path, yesterday, yesterday); err != nil {
			t.Fatal(err)
		}
	}
	return dir, served, hidden
}

var yesterday = time.Now().Add(-24 * time.Hour).Truncate(time.Second)

func serveRepository(t *testing.T, dir string) (url string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	repository, err := files.OpenRepository(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(repository.Wrap(server.New(server.Options{Log: log})))
	t.Cleanup(web.Close)
	return web.URL + "/"
}

func TestARepositoryServesItsFilesAndNothingElse(t *testing.T) {
	dir, served, hidden := repositoryFolder(t)
	secret := writeFile(t, "outside")
	for link, target := range map[string]string{"apt/outside": secret, "apt/inside": "dists/stable/InRelease"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "apt/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	url := serveRepository(t, dir)
	for _, name := range served {
		if resp, body := get(t, url+strings.ReplaceAll(name, "~", "%7E")); resp.StatusCode != 200 || body != "content of "+name {
			t.Errorf("%s: %s %q", name, resp.Status, body)
		}
	}
	if _, body := get(t, url+"apt/inside"); body != "content of apt/dists/stable/InRelease" {
		t.Errorf("a link that stays inside: %q", body)
	}
	for _, name := range append(hidden, "apt", "apt/", "apt/pool", "apt/pool/", "yum/x86_64/", "apt/pipe", "apt/none", "apt/dists/stable/InRelease/x",
		"apt/%2e%2e/repository.key", "apt/..%2Frepository.key", "yum/%2E./repository.key", "apt/%00", "") {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = "/" + strings.ReplaceAll(name, " ", "%20") // as it is
		resp, body := do(t, req)
		if status := resp.StatusCode; status == 200 || strings.Contains(body, "content of") || strings.Contains(body, "teleport-update_") {
			t.Errorf("%q: %d %q; want nothing", name, resp.StatusCode, body)
		}
	}
	if resp, body := get(t, url+"apt/outside"); resp.StatusCode != 500 || strings.Contains(body, "outside") {
		t.Errorf("a link that leads out: %s %q", resp.Status, body)
	}
	if resp, err := http.Post(url+served[0], "text/plain", nil); err != nil || resp.StatusCode == 200 {
		t.Errorf("POST: %v, %v", resp, err)
	}
	if resp, body := get(t, url+"healthz"); resp.StatusCode != 200 || body != "ok\n" {
		t.Errorf("beside the repository: %s %q", resp.Status, body)
	}
}

func TestARepositoryTellsCachesWhatMayChange(t *testing.T) {
	dir, _, _ := repositoryFolder(t)
	url := serveRepository(t, dir)
	const forEver = "public, max-age=31536000, immutable"
	for name, want := range map[string][2]string{
		"apt/dists/stable/InRelease":                                   {"no-cache", "text/plain; charset=utf-8"},
		"apt/dists/stable/main/binary-amd64/Packages.gz":               {"no-cache", "application/gzip"},
		"apt/dists/stable/main/binary-amd64/by-hash/SHA256/" + aDigest: {forEver, "text/plain; charset=utf-8"},
		aDeb: {"public, max-age=86400", "application/vnd.debian.binary-package"},
		"yum/x86_64/teleport-update-1.0.0-1.x86_64.rpm":      {"public, max-age=86400", "application/x-rpm"},
		"yum/x86_64/repodata/repomd.xml":                     {"no-cache", "application/xml"},
		"yum/x86_64/repodata/" + aDigest + "-primary.xml.gz": {forEver, "application/gzip"},
		"teleport-update.asc":                                {"no-cache", "text/plain; charset=utf-8"},
	} {
		resp, _ := get(t, url+name)
		if got := [2]string{resp.Header.Get("Cache-Control"), resp.Header.Get("Content-Type")}; got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
		if resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("ETag") == "" || resp.Header.Get("Last-Modified") != yesterday.UTC().Format(http.TimeFormat) {
			t.Errorf("%s: headers %v", name, resp.Header)
		}
	}
}

// apt asks with the time of what it has, and goes on where it was cut off.
func TestARepositoryAnswersConditionsAndRanges(t *testing.T) {
	dir, _, _ := repositoryFolder(t)
	url := serveRepository(t, dir)
	at := func(d time.Duration) string { return yesterday.Add(d).UTC().Format(http.TimeFormat) }
	for _, tc := range []struct {
		name, header, value string
		status              int
	}{
		{"the same", "If-Modified-Since", at(0), 304},
		{"an older one, restored from a copy", "If-Modified-Since", at(time.Hour), 200},
		{"a newer one", "If-Modified-Since", at(-time.Hour), 200},
		{"no time", "If-Modified-Since", "yesterday", 200},
		{"a part", "Range", "bytes=3-", 206},
		{"beyond the end", "Range", "bytes=100000-", 416},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, err := http.NewRequest("GET", url+"apt/dists/stable/InRelease", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(tc.header, tc.value)
			resp, body := do(t, req)
			if resp.StatusCode != tc.status || tc.status == 206 && body != "tent of apt/dists/stable/InRelease" {
				t.Errorf("%s %q; want %d", resp.Status, body, tc.status)
			}
		})
	}
	req, _ := http.NewRequest("GET", url+aDeb, nil)
	req.Header.Set("Range", "bytes=3-")
	req.Header.Set("If-Range", at(0))
	if resp, body := do(t, req); resp.StatusCode != 206 || body != "tent of "+aDeb {
		t.Errorf("the rest of the same package: %s %q", resp.Status, body)
	}
	req.Header.Set("If-Range", at(-time.Hour))
	if resp, _ := do(t, req); resp.StatusCode != 200 {
		t.Errorf("the rest of another package: %s", resp.Status)
	}
}

// Two that follow one another in a second have one time: the first is sent without.
func TestAFileThatIsNewHasNoTime(t *testing.T) {
	dir, _, _ := repositoryFolder(t)
	url := serveRepository(t, dir)
	name := filepath.Join(dir, "apt/dists/stable/InRelease")
	edit(t, name, "new")
	now := time.Now()
	if err := os.Chtimes(name, now, now.Add(time.Hour)); err != nil { // however slow the test is
		t.Fatal(err)
	}
	if resp, body := get(t, url+"apt/dists/stable/InRelease"); resp.Header.Get("Last-Modified") != "" || body != "new" {
		t.Errorf("headers %v", resp.Header)
	}
}

func TestARepositoryMayBeExchanged(t *testing.T) {
	one, _, _ := repositoryFolder(t)
	two, _, _ := repositoryFolder(t)
	edit(t, filepath.Join(two, "teleport-update.repo"), "two")
	link := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	url := serveRepository(t, link)
	if err := os.Rename(one, one+".old"); err != nil {
		t.Fatal(err)
	}
	if resp, _ := get(t, url+"teleport-update.repo"); resp.StatusCode != 404 {
		t.Errorf("while there is none: %s", resp.Status)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(two, link); err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, url+"teleport-update.repo"); body != "two" {
		t.Errorf("after the exchange: %q", body)
	}
}

func TestAFolderThatIsNoRepositoryIsRefused(t *testing.T) {
	for dir, want := range map[string]string{t.TempDir(): "neither apt nor yum", "/nonexistent/repository": "no such file"} {
		if _, err := files.OpenRepository(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", dir, err, want)
		}
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	truncate(t, path, content)
	return path
}

// edit replaces the file, as most editors do.
func edit(t *testing.T, path, content string) {
	t.Helper()
	truncate(t, path+".new", content)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// truncate writes in place.
func truncate(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
