package files_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"teleport-update/find/server"
	"teleport-update/find/server/files"
)

func TestPackagesAreListedTheNewestLast(t *testing.T) {
	dir := t.TempDir()
	packages, err := files.OpenPackages(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer packages.Close()
	web := httptest.NewServer(server.New(server.Options{Packages: packages, InstallScript: []byte("#!/bin/sh\n"), Log: slog.New(slog.DiscardHandler)}))
	defer web.Close()
	url := web.URL + files.PackagesPath
	if resp, body := get(t, url+files.ChecksumsName); resp.StatusCode != 200 || body != "" {
		t.Errorf("an empty folder: %s: %s", resp.Status, body)
	}

	listed := []string{
		"teleport-update_0.9.0_amd64.deb",
		"teleport-update_1.0.0~rc.1_amd64.deb",
		"teleport-update-1.0.0-1.x86_64.rpm",
		"teleport-update-1.0.0-linux-amd64",
		"teleport-update_1.0.0_amd64.deb",
		"teleport-update_1.9.0_amd64.deb",
		"teleport-update_1.10.0_amd64.deb",
	}
	others := []string{
		"teleport-find_1.0.0_amd64.deb", "teleport-update_1.0.0_amd64.deb.part", ".teleport-update_1.0.0_amd64.deb", "teleport-update_latest_amd64.deb",
		"teleport-update_1.0.0_amd64.deb sha", "ca.key", "teleport-update",
	}
	want := ""
	signatures := []string{"teleport-update_1.10.0_amd64.deb.asc", "teleport-update-1.0.0-linux-amd64.asc", "teleport-update-1.0.0-linux-amd64.sig"}
	for i, name := range slices.Concat(listed, signatures, others) {
		write(t, dir, name, []byte(name))
		if i < len(listed) {
			want += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(name)), name)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "teleport-update_2.0.0_amd64.deb"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "teleport-update_2.0.1_amd64.deb"), 0o644); err != nil {
		t.Fatal(err)
	}
	if resp, body := get(t, url+files.ChecksumsName); resp.StatusCode != 200 || body != want || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s:\n%s\nwant\n%s", resp.Status, body, want)
	}
	for _, name := range slices.Concat(listed, signatures) {
		if resp, body := get(t, url+strings.ReplaceAll(name, "~", "%7E")); resp.StatusCode != 200 || body != name {
			t.Errorf("%s: %s %q", name, resp.Status, body)
		}
	}
	for _, name := range append(others, "teleport-update_2.0.0_amd64.deb", "teleport-update_2.0.1_amd64.deb", "..%2Fteleport-update_1.0.0_amd64.deb") {
		if resp, _ := get(t, url+strings.ReplaceAll(name, " ", "%20")); resp.StatusCode != 404 {
			t.Errorf("%s: %s; want 404", name, resp.Status)
		}
	}

	// A package that is replaced has another checksum at once.
	write(t, dir, listed[0], []byte("another"))
	if _, body := get(t, url+files.ChecksumsName); !strings.HasPrefix(body, fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte("another")), listed[0])) {
		t.Errorf("after a change:\n%s", body)
	}
	if resp, body := get(t, web.URL+server.InstallScriptPath); resp.StatusCode != 200 || body != "#!/bin/sh\n" || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the install script: %s %q %v", resp.Status, body, resp.Header)
	}
}
