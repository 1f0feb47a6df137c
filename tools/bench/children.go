package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// decompress FILE reads a tarball to nowhere with the updater's own libraries:
// the stage that cannot be done without.
func decompress(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(struct{ io.Reader }{f}, 64<<10)
	var out io.Reader
	if strings.HasSuffix(args[0], ".zst") {
		out, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
	} else {
		out, err = kgzip.NewReader(in)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, out)
	return err
}

// download URL receives a tarball to nowhere.
func download(args []string) error {
	resp, err := get(args[0])
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func get(url string) (*http.Response, error) {
	resp, err := http.Get(url)
	if err == nil && resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		err = errors.New(resp.Status)
	}
	return resp, err
}

// threePass URL DIR is an update as shipped updaters do it: download to a file,
// which is hashed on the way; read it once to learn the unpacked size; read it
// again to extract it, with the standard library. Like ours it ends with
// everything synced.
func threePass(args []string) error {
	url, dir := args[0], args[1]
	sum, err := get(url + ".sha256")
	if err != nil {
		return err
	}
	defer sum.Body.Close()
	want, err := io.ReadAll(sum.Body)
	if err != nil {
		return err
	}
	tarball := filepath.Join(dir, "tarball")
	f, err := os.Create(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	resp, err := get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, hash), resp.Body); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); !strings.HasPrefix(string(want), got) {
		return fmt.Errorf("checksum %s, want %.64s", got, want)
	}
	var size int64
	if err := entries(f, func(h *tar.Header, _ io.Reader) error { size += h.Size; return nil }); err != nil {
		return err
	}
	if err := entries(f, func(h *tar.Header, r io.Reader) error { return extract(dir, h, r) }); err != nil {
		return err
	}
	if err := os.Remove(tarball); err != nil {
		return err
	}
	return syncDir(dir)
}

func entries(f *os.File, each func(*tar.Header, io.Reader) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(h, r); err != nil {
			return err
		}
	}
}

func extract(dir string, h *tar.Header, r io.Reader) error {
	path := filepath.Join(dir, h.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, r); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Sync(), out.Close(), syncDir(filepath.Dir(path)))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
