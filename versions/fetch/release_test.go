package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/tarball"
	"teleport-update/internal/sharedbuffer"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

func largeRelease(version string, size int) []byte { return tarball.Large(version, size) }

// soundTarball is a release with everything that a real one has, and more.
func soundTarball(version string, more ...tarball.Item) []byte {
	return tarball.Gzip(tarball.Of(append(tarball.Sound(version), more...)...))
}

func digestHex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// testFetcher fetches into a new store; its log goes to the buffer.
func testFetcher(t *testing.T, client *http.Client) (*Fetcher, *sharedbuffer.Buffer) {
	t.Helper()
	log := new(sharedbuffer.Buffer)
	store := versions.NewStore(filepath.Join(t.TempDir(), "versions"))
	f := New(store, client, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	f.Patience.Tries = 3
	f.Patience.Backoff = time.Millisecond
	f.Patience.MaxBackoff = 4 * time.Millisecond
	return f, log
}

// onDisk puts a tarball and its checksum into a folder and returns the
// template that finds it.
func onDisk(t *testing.T, tarball []byte) *Template {
	t.Helper()
	path := filepath.Join(t.TempDir(), "release.tar")
	if err := os.WriteFile(path, tarball, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".sha256", []byte(strings.ToUpper(digestHex(tarball))+"  release.tar\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return mustTemplate(t, "file://"+path)
}

func mustTemplate(t *testing.T, text string) *Template {
	t.Helper()
	template, err := ParseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func oss(v string) versions.Release { return versions.Release{Version: v, Edition: version.OSS} }

// publish fetches a sound release from a file.
func publish(t *testing.T, f *Fetcher, r versions.Release) versions.Tree {
	t.Helper()
	tree, err := f.Fetch(context.Background(), Request{Release: r, Sources: []*Template{onDisk(t, soundTarball(r.Version))}})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// contents returns every file below dir as "path mode content", and every
// other entry as "path mode".
func contents(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%s %v", rel, info.Mode())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(data)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantNothingLeft fails unless the store holds nothing but an empty partial/.
func wantNothingLeft(t *testing.T, s *versions.Store) {
	t.Helper()
	if got := contents(t, s.Dir); len(got) != 1 || !strings.HasPrefix(got[0], "partial d") {
		t.Errorf("left behind: %.300q", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
