package fetch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/versions"
	"teleport-update/versions/archive"
	"teleport-update/versions/signature"
)

func saveTarball(t *testing.T, f *Fetcher, dir string, servers ...*releaseServer) (Saved, error) {
	t.Helper()
	req := SaveRequest{Release: versions.Release{Version: "15.1.1", Edition: "oss"}, Path: filepath.Join(dir, "teleport.tar.gz")}
	for _, s := range servers {
		req.Sources = append(req.Sources, s.template())
	}
	return f.Save(t.Context(), req)
}

// wantSaved asserts that the folder holds the tarball, its checksum, and no more.
func wantSaved(t *testing.T, dir string, tarball []byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "teleport.tar.gz"))
	if err != nil || string(data) != string(tarball) {
		t.Errorf("the tarball has %d bytes, %v; want the %d that were served", len(data), err, len(tarball))
	}
	sum, err := os.ReadFile(filepath.Join(dir, "teleport.tar.gz.sha256"))
	if want := digestHex(tarball) + "  teleport.tar.gz\n"; err != nil || string(sum) != want {
		t.Errorf("its checksum is %q, %v; want %q", sum, err, want)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"teleport.tar.gz", "teleport.tar.gz.sha256"}) {
		t.Errorf("the folder holds %q", got)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAPipeInTheTarballsPlaceIsNamed(t *testing.T) {
	s := serve(t, largeRelease("15.1.1", 1<<20))
	f, _ := testFetcher(t, s.Client())
	dir := t.TempDir()
	path := filepath.Join(dir, "teleport.tar.gz")
	must(t, unix.Mkfifo(path, 0o644))
	if _, err := saveTarball(t, f, dir, s); err == nil || !strings.Contains(err.Error(), path+" is in the way: it is not a regular file") {
		t.Errorf("error %v; want one that names what is in the way", err)
	}
}

func TestASavedTarballIsNotDownloadedAgain(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	s := serve(t, tarball)
	f, _ := testFetcher(t, s.Client())
	dir := t.TempDir()
	saved, err := saveTarball(t, f, dir, s)
	if want := (Saved{SHA256: digestHex(tarball), Size: int64(len(tarball))}); err != nil || saved != want {
		t.Fatalf("saved %+v, %v; want %+v", saved, err, want)
	}
	wantSaved(t, dir, tarball)
	if info, err := os.Stat(filepath.Join(dir, "teleport.tar.gz")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the tarball's mode is %v, %v", info.Mode(), err)
	}

	s.forget()
	must(t, os.Remove(filepath.Join(dir, "teleport.tar.gz.sha256")))
	if saved, err = saveTarball(t, f, dir, s); err != nil || !saved.Present || saved.SHA256 != digestHex(tarball) {
		t.Errorf("the second time: %+v, %v", saved, err)
	}
	if n := s.seen().count; n != 0 {
		t.Errorf("the tarball was asked for %d times", n)
	}
	wantSaved(t, dir, tarball)
}

func TestAnInterruptedSaveIsContinued(t *testing.T) {
	tarball := largeRelease("15.1.1", 3<<20)
	s := serve(t, tarball)
	f, _ := testFetcher(t, s.Client())
	f.Patience.Tries = 1
	dir := t.TempDir()
	s.fault = cutting(1, 1<<20)
	if _, err := saveTarball(t, f, dir, s); err == nil {
		t.Fatal("a connection that was cut saved a tarball")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"." + digestHex(tarball) + ".part"}) {
		t.Fatalf("after the cut the folder holds %q", got)
	}
	s.forget()
	if _, err := saveTarball(t, f, dir, s); err != nil {
		t.Fatal(err)
	}
	wantSaved(t, dir, tarball)
	if sent := s.seen().sent; sent == 0 || sent > len(tarball)-500<<10 {
		t.Errorf("%d bytes were sent again of %d", sent, len(tarball))
	}
}

func TestAContinuedSaveOfSpoiltBytesBeginsAnew(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	for name, spoilt := range map[string]string{
		"other bytes":                 strings.Repeat("x", 1000),
		"more than the whole tarball": strings.Repeat("x", 2<<20),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tarball)
			f, log := testFetcher(t, s.Client())
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "."+digestHex(tarball)+".part"), []byte(spoilt), 0o600))
			if _, err := saveTarball(t, f, dir, s); err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			wantSaved(t, dir, tarball)
		})
	}
}

func TestASaveThatEndedBeforeTheNameNeedsNoDownload(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	s := serve(t, tarball)
	f, _ := testFetcher(t, s.Client())
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "."+digestHex(tarball)+".part"), tarball, 0o600))
	if _, err := saveTarball(t, f, dir, s); err != nil {
		t.Fatal(err)
	}
	wantSaved(t, dir, tarball)
	if n := s.seen().count; n != 0 {
		t.Errorf("the tarball was asked for %d times", n)
	}
}

func TestASavePublishedAnewReplacesTheOld(t *testing.T) {
	before, after := largeRelease("15.1.1", 1<<20), largeRelease("15.1.1", 2<<20)
	s := serve(t, before)
	f, _ := testFetcher(t, s.Client())
	dir := t.TempDir()
	_, err := saveTarball(t, f, dir, s)
	must(t, err)
	s.replace(after, `"two"`)
	if saved, err := saveTarball(t, f, dir, s); err != nil || saved.Present {
		t.Fatalf("%+v, %v", saved, err)
	}
	wantSaved(t, dir, after)
}

func TestADamagedTarballIsNotSaved(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	damaged, sound := serve(t, tarball), serve(t, tarball)
	damaged.fault = func(_ int, w *faultyWriter, _ *http.Request) bool {
		w.ResponseWriter.Write([]byte(strings.Repeat("x", len(tarball))))
		return true
	}
	f, _ := testFetcher(t, damaged.Client())
	dir := t.TempDir()
	_, err := saveTarball(t, f, dir, damaged)
	if e, ok := errors.AsType[*ChecksumError](err); !ok || e.Want != digestHex(tarball) {
		t.Errorf("saving a damaged tarball: %v", err)
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("the folder holds %q", got)
	}
	if _, err := saveTarball(t, f, dir, damaged, sound); err != nil {
		t.Errorf("with a sound mirror: %v", err)
	}
	wantSaved(t, dir, tarball)
}

func TestASaveFromAFolderAndOfNothing(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	source, dir := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(source, "15.1.1.tgz"), tarball, 0o644))
	must(t, os.WriteFile(filepath.Join(source, "15.1.1.tgz.sha256"), []byte(digestHex(tarball)), 0o644))
	f, _ := testFetcher(t, http.DefaultClient)
	req := SaveRequest{
		Release: versions.Release{Version: "15.1.1", Edition: "oss"}, Path: filepath.Join(dir, "teleport.tar.gz"),
		Sources: []*Template{mustTemplate(t, "file://"+source+"/{{.Version}}.tgz")},
	}
	if _, err := f.Save(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	wantSaved(t, dir, tarball)

	req.Release.Version = "15.1.2"
	if _, err := f.Save(t.Context(), req); !errors.Is(err, ErrNotFound) {
		t.Errorf("a version that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Save(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	wantSaved(t, dir, tarball)
}

func TestATemplateForOtherHosts(t *testing.T) {
	template := mustTemplate(t, "https://cdn.example/{{.Version}}-{{.OS}}-{{.Arch}}")
	for want, of := range map[string]*Template{
		"https://cdn.example/15.1.1-plan9-mips": template.For("plan9", "mips"),
		"https://cdn.example/15.1.1-linux-arm":  template.For("plan9", "mips").For("linux", "arm"),
	} {
		if u, err := of.URL(versions.Release{Version: "15.1.1", Edition: "oss"}); err != nil || u.String() != want {
			t.Errorf("got %v, %v; want %s", u, err, want)
		}
	}
}

// pairOf is a key, and the signature that it makes of data.
func pairOf(t *testing.T, data []byte) (key signature.Key, file string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	must(t, err)
	keys, err := signature.ParseKeys("a.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	must(t, err)
	sum := sha256.Sum256(data)
	made, err := ecdsa.SignASN1(rand.Reader, k, sum[:])
	must(t, err)
	return keys[0], base64.StdEncoding.EncodeToString(made) + "\n"
}

func TestASaveBringsTheSignatureOfTheTarballThatIsThere(t *testing.T) {
	first, second := largeRelease("15.1.1", 1<<20), largeRelease("15.1.1", 1<<20+512)
	key, sig := pairOf(t, first)
	s := serve(t, first)
	f, _ := testFetcher(t, s.Client())
	dir := t.TempDir()
	path := filepath.Join(dir, "teleport.tar.gz")
	for _, tc := range []struct {
		name    string
		tarball []byte
		serves  string // as the signature; empty: 404
		want    string // what lies beside; empty: nothing
	}{
		{"none", first, "", ""},
		{"a page", first, "<html>no such file</html>", ""},
		{"a page without end", first, strings.Repeat("x", 2*signature.MaxFile), ""},
		{"one, for a tarball that was there", first, sig, sig},
		{"the mirror lost it", first, "", sig},
		{"another tarball, without one", second, "", ""},
		{"the first one again", first, sig, sig},
	} {
		s.replace(tc.tarball, "")
		s.signature = tc.serves
		saved, err := saveTarball(t, f, dir, s)
		must(t, err)
		got, err := os.ReadFile(path + ".sig")
		if string(got) != tc.want || saved.Signed != (tc.want != "") || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: beside it lies %q (%v), and Signed is %v; want %q", tc.name, got, err, saved.Signed, tc.want)
		}
		found, err := CheckArchive(path, archive.DefaultLimits(), key)
		if signed := err == nil && len(found) == 0; signed != (tc.want != "") {
			t.Errorf("%s: the check finds %v, %v", tc.name, found, err)
		}
	}
	other, _ := pairOf(t, first)
	if found, err := CheckArchive(path, archive.DefaultLimits(), other); err != nil || rulesOf(found) != "signature" {
		t.Errorf("by another key it has %v, %v", found, err)
	}
	if found, err := CheckArchive(path, archive.DefaultLimits(), other, key); err != nil || len(found) > 0 {
		t.Errorf("by either key it has %v, %v", found, err)
	}
}
