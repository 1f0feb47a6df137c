package versions

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"teleport-update/internal/version"
)

// item is one raw tar entry: what archive/tar would not write is what matters
// here.
type item struct {
	name     string
	kind     byte // tar.TypeReg when zero
	mode     int64
	size     int64 // of the header; len(data) when zero
	link     string
	data     string
	pax      map[string]string // in an extended header before the entry
	longName string            // in a GNU long name before the entry
}

func tarOf(items ...item) []byte {
	var out bytes.Buffer
	for _, it := range items {
		it.write(&out)
	}
	out.Write(make([]byte, 1024))
	return out.Bytes()
}

func (it item) write(out *bytes.Buffer) {
	if it.pax != nil {
		var records strings.Builder
		for key, value := range it.pax {
			records.WriteString(paxRecord(key, value))
		}
		item{name: "pax", kind: tar.TypeXHeader, data: records.String()}.write(out)
	}
	if it.longName != "" {
		item{name: "././@LongLink", kind: 'L', data: it.longName + "\x00"}.write(out)
	}
	kind, mode, size := it.kind, it.mode, it.size
	if kind == 0 {
		kind = tar.TypeReg
	}
	if mode == 0 {
		mode = 0o755
	}
	if size == 0 {
		size = int64(len(it.data))
	}
	var h [512]byte
	copy(h[0:100], it.name)
	copy(h[100:], fmt.Sprintf("%07o\x00", mode))
	copy(h[108:], "0000000\x00")
	copy(h[116:], "0000000\x00")
	if size < 1<<33 {
		copy(h[124:], fmt.Sprintf("%011o\x00", size))
	} else { // base-256
		h[124] = 0x80
		for i := range 8 {
			h[128+i] = byte(size >> (56 - 8*i))
		}
	}
	copy(h[136:], "00000000000\x00")
	h[156] = kind
	copy(h[157:257], it.link)
	copy(h[257:], "ustar\x0000")
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	out.Write(h[:])
	out.WriteString(it.data)
	out.Write(make([]byte, (512-len(it.data)%512)%512))
}

func paxRecord(key, value string) string {
	length := len(key) + len(value) + 3
	for n := length; ; n++ {
		record := fmt.Sprintf("%d %s=%s\n", n, key, value)
		if len(record) == n {
			return record
		}
	}
}

const testUnit = "[Service]\nExecStart=/usr/local/bin/teleport start\n"

// teleportScript answers "teleport version" as the real one does.
func teleportScript(version string) string {
	return "#!/bin/sh\necho \"Teleport v" + version + " git:v" + version + "-0-gabcdef go1.22\"\n"
}

// soundItems is a release with everything a real one has.
func soundItems(version string) []item {
	return []item{
		{name: "teleport/", kind: tar.TypeDir},
		{name: "teleport/VERSION", mode: 0o644, data: version + "\n"},
		{name: "teleport/README.md", mode: 0o644, data: "read me"},
		{name: "teleport/install", data: "#!/bin/sh\n"},
		{name: "teleport/tsh", data: "tsh " + version},
		{name: "teleport/teleport", data: teleportScript(version)},
		{name: "teleport/tctl", mode: 0o700, data: "tctl " + version},
		{name: "teleport/examples/", kind: tar.TypeDir},
		{name: "teleport/examples/systemd/teleport.service", mode: 0o600, data: testUnit},
		{name: "teleport/examples/systemd/README.md", data: "executable by mistake"},
	}
}

func gz(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(data)
	w.Close()
	return out.Bytes()
}

func zst(data []byte, opts ...zstd.EOption) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, opts...)
	if err != nil {
		panic(err)
	}
	w.Write(data)
	w.Close()
	return out.Bytes()
}

// largeRelease is a sound release with a program of random bytes, which no
// compression makes smaller.
func largeRelease(version string, size int) []byte {
	noise := make([]byte, size)
	rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, version, size))).Read(noise)
	return gz(tarOf(append(soundItems(version), item{name: "teleport/tbot", data: string(noise)})...))
}

func digestHex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// testFetcher fetches into a new store; its log goes to the buffer.
func testFetcher(t *testing.T, client *http.Client) (*Fetcher, *lockedBuffer) {
	t.Helper()
	log := new(lockedBuffer)
	store := NewStore(filepath.Join(t.TempDir(), "versions"))
	f := NewFetcher(store, client, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
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

func oss(v string) Release { return Release{Version: v, Edition: version.OSS} }

// publish fetches a sound release from a file.
func publish(t *testing.T, f *Fetcher, r Release) Tree {
	t.Helper()
	tree, err := f.Fetch(context.Background(), FetchRequest{Release: r, Sources: []*Template{onDisk(t, gz(tarOf(soundItems(r.Version)...)))}})
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
func wantNothingLeft(t *testing.T, s *Store) {
	t.Helper()
	if got := contents(t, s.Dir); len(got) != 1 || !strings.HasPrefix(got[0], "partial d") {
		t.Errorf("left behind: %.300q", got)
	}
}
