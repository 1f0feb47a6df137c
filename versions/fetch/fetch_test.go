package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/versions"
)

func fetchFrom(f *Fetcher, v string, servers ...*releaseServer) (versions.Tree, error) {
	req := Request{Release: oss(v)}
	for _, s := range servers {
		req.Sources = append(req.Sources, s.template())
	}
	return f.Fetch(context.Background(), req)
}

func wantWhole(t *testing.T, tree versions.Tree, tarball []byte) {
	t.Helper()
	if tree.SHA256 != digestHex(tarball) {
		t.Errorf("the tree says %s; want %s", tree.SHA256, digestHex(tarball))
	}
	if err := tree.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestAFetchAsksForTheChecksumAndTheTarballOnceEach(t *testing.T) {
	tarball := largeRelease("15.1.1", 300<<10)
	s := serve(t, tarball)
	f, _ := testFetcher(t, s.Client())
	tree, err := fetchFrom(f, "15.1.1", s)
	if err != nil {
		t.Fatal(err)
	}
	wantWhole(t, tree, tarball)
	want := []string{"GET /teleport-v15.1.1.tar.gz.sha256", "GET /teleport-v15.1.1.tar.gz"}
	if !slices.Equal(s.seen().requests, want) {
		t.Errorf("requests %q; want %q", s.seen().requests, want)
	}
	if again, err := fetchFrom(f, "15.1.1", s); err != nil || again != tree {
		t.Errorf("the second fetch gave %+v, %v", again, err)
	}
	if len(s.seen().requests) != 2 {
		t.Errorf("an intact version was asked for again: %q", s.seen().requests[2:])
	}
}

func TestMirrorsTakeOver(t *testing.T) {
	tarball, other := largeRelease("15.1.1", 2<<20), largeRelease("15.1.1", 2<<20+512)
	notFound := func(_ int, w *faultyWriter, r *http.Request) bool {
		http.NotFound(w.ResponseWriter, r)
		return true
	}
	breaking := func(n int, w *faultyWriter, r *http.Request) bool {
		if n > 1 {
			return notFound(n, w, r)
		}
		return cutting(1, 1<<20)(n, w, r)
	}
	t.Run("where the first does not have the release", func(t *testing.T) {
		a, b := serve(t, tarball), serve(t, tarball)
		a.fault = notFound
		f, _ := testFetcher(t, trusting(a, b))
		tree, err := fetchFrom(f, "15.1.1", a, b)
		if err != nil {
			t.Fatal(err)
		}
		wantWhole(t, tree, tarball)
	})
	t.Run("in mid-stream, with the same checksum", func(t *testing.T) {
		a, b := serve(t, tarball), serve(t, tarball)
		a.fault, b.etag = breaking, `"another server's"`
		f, _ := testFetcher(t, trusting(a, b))
		tree, err := fetchFrom(f, "15.1.1", a, b)
		if err != nil {
			t.Fatal(err)
		}
		wantWhole(t, tree, tarball)
		if a.seen().sent+b.seen().sent > len(tarball)+512<<10 || b.seen().count != 1 {
			t.Errorf("%d and %d bytes; want them to share the %d", a.seen().sent, b.seen().sent, len(tarball))
		}
	})
	t.Run("in mid-stream, with another checksum", func(t *testing.T) {
		a, b := serve(t, tarball), serve(t, other)
		a.fault = breaking
		f, _ := testFetcher(t, trusting(a, b))
		tree, err := fetchFrom(f, "15.1.1", a, b)
		if err != nil {
			t.Fatal(err)
		}
		wantWhole(t, tree, other)
		if len(b.seen().ifRange) > 0 {
			t.Errorf("a part of another tarball was asked for: %q", b.seen().requests)
		}
	})
	t.Run("where the first has a damaged tarball", func(t *testing.T) {
		a, b := serve(t, tarball), serve(t, tarball)
		a.fault = func(_ int, w *faultyWriter, _ *http.Request) bool {
			damaged := slices.Clone(tarball)
			damaged[4] ^= 1 // the time in gzip's header: only the checksum can tell
			w.ResponseWriter.Write(damaged)
			return true
		}
		f, _ := testFetcher(t, trusting(a, b))
		tree, err := fetchFrom(f, "15.1.1", a, b)
		if err != nil {
			t.Fatal(err)
		}
		wantWhole(t, tree, tarball)
	})
	slowAtFirst := func(n int, w *faultyWriter, _ *http.Request) bool {
		w.slow = n == 1
		return false
	}
	t.Run("where the first would take too long", func(t *testing.T) {
		a, b := serve(t, tarball), serve(t, tarball)
		a.fault = slowAtFirst
		f, _ := testFetcher(t, trusting(a, b))
		f.Patience.StallWindow, f.Patience.StallBytes, f.Patience.Slow = 600*time.Millisecond, 1, time.Second
		tree, err := fetchFrom(f, "15.1.1", a, b)
		if err != nil {
			t.Fatal(err)
		}
		wantWhole(t, tree, tarball)
		if a.seen().sent >= len(tarball) || b.seen().sent >= len(tarball) {
			t.Errorf("%d and %d bytes; want them to share the %d", a.seen().sent, b.seen().sent, len(tarball))
		}
	})
	t.Run("where the first would take too long and the others have nothing", func(t *testing.T) {
		a, b := serve(t, tarball), serve(t, tarball)
		a.fault, b.fault = slowAtFirst, notFound
		f, _ := testFetcher(t, trusting(a, b))
		f.Patience.StallWindow, f.Patience.StallBytes, f.Patience.Slow = 600*time.Millisecond, 1, time.Second
		tree, err := fetchFrom(f, "15.1.1", a, b)
		if err != nil {
			t.Fatal(err)
		}
		wantWhole(t, tree, tarball)
		if a.seen().count != 2 || b.seen().count != 1 {
			t.Errorf("%d and %d requests; want the slow one asked again after the other", a.seen().count, b.seen().count)
		}
	})
	t.Run("until none is left", func(t *testing.T) {
		a, b := serve(t, tarball), serve(t, tarball)
		a.fault, b.fault = notFound, notFound
		f, _ := testFetcher(t, trusting(a, b))
		_, err := fetchFrom(f, "15.1.1", a, b)
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), a.URL) || !strings.Contains(err.Error(), b.URL) {
			t.Errorf("error %v; want ErrNotFound, with both servers named", err)
		}
	})
}

func TestAChecksumIsTheFirstThatASourceAnnounces(t *testing.T) {
	first, second := largeRelease("15.1.1", 1000), largeRelease("15.1.1", 2000)
	a, b := serve(t, first), serve(t, second)
	f, _ := testFetcher(t, trusting(a, b))
	ask := func() (string, error) {
		return f.Checksum(context.Background(), oss("15.1.1"), []*Template{a.template(), b.template()})
	}
	if got, err := ask(); err != nil || got != digestHex(first) {
		t.Errorf("%s, %v; want the first server's %s", got, err, digestHex(first))
	}
	a.Close()
	if got, err := ask(); err != nil || got != digestHex(second) {
		t.Errorf("without the first server: %s, %v; want the second's %s", got, err, digestHex(second))
	}
	if a.seen().count+b.seen().count != 0 || len(a.seen().requests)+len(b.seen().requests) != 2 {
		t.Errorf("asked for %q and %q; want the checksums alone, each once", a.seen().requests, b.seen().requests)
	}
	b.Close()
	if got, err := ask(); err == nil || !strings.Contains(err.Error(), a.URL) || !strings.Contains(err.Error(), b.URL) {
		t.Errorf("without servers: %q, %v; want both in the error", got, err)
	}
}

// trusting returns a client that trusts both servers.
func trusting(a, b *releaseServer) *http.Client {
	client := a.Client()
	client.Transport.(*http.Transport).TLSClientConfig.RootCAs.AddCert(b.Certificate())
	return client
}

func TestATarballMustHaveItsChecksum(t *testing.T) {
	tarball := largeRelease("15.1.1", 200<<10)
	damaged := slices.Clone(tarball)
	damaged[4] ^= 1
	s := serve(t, tarball)
	s.fault = func(_ int, w *faultyWriter, _ *http.Request) bool {
		w.ResponseWriter.Write(damaged)
		return true
	}
	f, _ := testFetcher(t, s.Client())
	_, err := fetchFrom(f, "15.1.1", s)
	checksum, ok := errors.AsType[*ChecksumError](err)
	if !ok || checksum.Want != digestHex(tarball) || checksum.Got != digestHex(damaged) {
		t.Errorf("error %v; want a ChecksumError", err)
	}
	wantNothingLeft(t, f.Store)

	s.fault = nil
	req := Request{Release: oss("15.1.1"), Sources: []*Template{s.template()}, ExpectSHA256: digestHex(damaged)}
	if _, err := f.Fetch(context.Background(), req); !isChecksum(err) {
		t.Errorf("another tarball than expected: %v; want a ChecksumError", err)
	}
	wantNothingLeft(t, f.Store)
}

func isChecksum(err error) bool {
	_, ok := errors.AsType[*ChecksumError](err)
	return ok
}

func TestSecretsOfURLsAreNeverShown(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	faults := map[string]func(int, *faultyWriter, *http.Request) bool{
		"sound": nil,
		"cut":   cutting(2, 300<<10),
		"gone":  func(_ int, w *faultyWriter, r *http.Request) bool { http.NotFound(w.ResponseWriter, r); return true },
		"dead":  func(_ int, w *faultyWriter, r *http.Request) bool { panic(http.ErrAbortHandler) },
		"page": func(_ int, w *faultyWriter, r *http.Request) bool {
			io.WriteString(w.ResponseWriter, "<html>")
			return true
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tarball)
			s.fault = fault
			f, log := testFetcher(t, s.Client())
			f.Patience.KeepAfter = 0
			url := strings.Replace(s.URL, "https://", "https://user:hunter2@", 1) + "/teleport.tgz?token=s3cr3t"
			_, err := f.Fetch(context.Background(), Request{Release: oss("15.1.1"), Sources: []*Template{mustTemplate(t, url)}})
			shown := fmt.Sprint(err) + log.String() + strings.Join(contents(t, f.Store.PartialDir()), "\n") + mustTemplate(t, url).String()
			for _, secret := range []string{"hunter2", "s3cr3t"} {
				if strings.Contains(shown, secret) {
					t.Errorf("%s is shown:\n%s\n%v", secret, log, err)
				}
			}
			if !strings.Contains(s.seen().requests[0], "/teleport.tgz.sha256") {
				t.Errorf("the checksum was asked for at %q", s.seen().requests[0])
			}
		})
	}
}

func TestACancelledFetchEndsAtOnceAndLeavesNoTree(t *testing.T) {
	s := serve(t, largeRelease("15.1.1", 2<<20))
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("the host stops")
	s.fault = func(_ int, w *faultyWriter, r *http.Request) bool {
		w.left, w.stall = 1<<20, true
		return false
	}
	f, _ := testFetcher(t, s.Client())
	f.Progress = &at{f.Progress, 1 << 20, func() { cancel(reason) }}
	_, err := f.Fetch(ctx, Request{Release: oss("15.1.1"), Sources: []*Template{s.template()}})
	if !errors.Is(err, reason) {
		t.Errorf("error %v; want %v", err, reason)
	}
	staged, _ := filepath.Glob(filepath.Join(f.Store.PartialDir(), ".staging-*"))
	if len(staged) > 0 {
		t.Errorf("left behind: %q", staged)
	}
}
