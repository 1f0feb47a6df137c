package fetch

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/versions"
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
