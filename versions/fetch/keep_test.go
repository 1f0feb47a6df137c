package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// at calls a function once so many bytes are here.
type at struct {
	Progress
	bytes int64
	call  func()
}

func (a *at) Update(done, total int64) {
	if done >= a.bytes {
		a.call()
	}
}

// interrupted runs a fetch that ends when so many bytes are here, and returns
// what it kept.
func interrupted(t *testing.T, f *Fetcher, s *releaseServer, after int) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	progress := f.Progress
	f.Progress = &at{progress, int64(after), cancel}
	s.fault = func(_ int, w *faultyWriter, _ *http.Request) bool {
		w.left, w.stall = after, true
		return false
	}
	if _, err := f.Fetch(ctx, Request{Release: oss("15.1.1"), Sources: []*Template{s.template()}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted fetch: %v", err)
	}
	f.Progress = progress
	s.forget()
	return filepath.Join(f.Store.PartialDir(), digestHex(s.tarball)+".part")
}

// firstUpdate is what a progress is told first.
type firstUpdate struct{ bytes int64 }

func (f *firstUpdate) Start(string) {}
func (f *firstUpdate) Update(done, _ int64) {
	if f.bytes == 0 {
		f.bytes = done
	}
}
func (f *firstUpdate) End() {}

func TestASlowDownloadIsContinuedByTheNextRun(t *testing.T) {
	tarball := largeRelease("15.1.1", 3<<20)
	s := serve(t, tarball)
	f, _ := testFetcher(t, s.Client())
	f.Patience.KeepAfter = 0
	kept := interrupted(t, f, s, 2<<20)
	info, err := os.Stat(kept)
	if err != nil || info.Size() != 2<<20 {
		t.Fatalf("kept: %v, %v", info, err)
	}
	first := &firstUpdate{}
	f.Progress = first
	tree, err := fetchFrom(f, "15.1.1", s)
	if err != nil {
		t.Fatal(err)
	}
	wantWhole(t, tree, tarball)
	if first.bytes <= info.Size() {
		t.Errorf("the progress began with %d bytes, and %d were kept: they count for the rate", first.bytes, info.Size())
	}
	if s.seen().sent > len(tarball)-int(info.Size())+1 {
		t.Errorf("%d bytes were sent for the %d that were missing", s.seen().sent, len(tarball)-int(info.Size()))
	}
	if left, _ := os.ReadDir(f.Store.PartialDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAKeptDownloadThatIsCompleteNeedsNoMoreBytes(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	for name, noted := range map[string]bool{"with its note": true, "without its note": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tarball)
			f, _ := testFetcher(t, s.Client())
			f.Patience.KeepAfter = 0
			kept := interrupted(t, f, s, 1<<19)
			if err := os.WriteFile(kept, tarball, 0o600); err != nil {
				t.Fatal(err)
			}
			if !noted {
				if err := os.Remove(strings.TrimSuffix(kept, ".part") + ".json"); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := fetchFrom(f, "15.1.1", s)
			if err != nil {
				t.Fatal(err)
			}
			wantWhole(t, tree, tarball)
			// Without the note, the server must say that there is no more.
			want := []string{"GET /teleport-v15.1.1.tar.gz.sha256"}
			if !noted {
				want = append(want, fmt.Sprintf("GET /teleport-v15.1.1.tar.gz bytes=%d-", len(tarball)))
			}
			if !slices.Equal(s.seen().requests, want) {
				t.Errorf("requests %q; want %q", s.seen().requests, want)
			}
		})
	}
}

func TestAKeptDownloadIsNotTrusted(t *testing.T) {
	tarball := largeRelease("15.1.1", 1<<20)
	for name, spoil := range map[string]func(t *testing.T, kept string){
		"other bytes": func(t *testing.T, kept string) {
			if err := os.WriteFile(kept, []byte(strings.Repeat("evil", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"one bit changed": func(t *testing.T, kept string) {
			data, err := os.ReadFile(kept)
			if err != nil {
				t.Fatal(err)
			}
			data[4] ^= 1
			if err := os.WriteFile(kept, data, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"more than there is": func(t *testing.T, kept string) {
			if err := os.WriteFile(kept, append(tarball[:len(tarball):len(tarball)], "more"...), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a link to a secret": func(t *testing.T, kept string) {
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(kept); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(secret, kept); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
					t.Errorf("the file behind the link holds %q, %v", data, err)
				}
			})
		},
		"a note that is none": func(t *testing.T, kept string) {
			if err := os.WriteFile(strings.TrimSuffix(kept, ".part")+".json", []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a note of another tarball": func(t *testing.T, kept string) {
			note := `{"total":7,"source":"","etag":"\"two\""}`
			if err := os.WriteFile(strings.TrimSuffix(kept, ".part")+".json", []byte(note), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tarball)
			f, log := testFetcher(t, s.Client())
			f.Patience.KeepAfter = 0
			spoil(t, interrupted(t, f, s, 1<<19))
			tree, err := fetchFrom(f, "15.1.1", s)
			if err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			wantWhole(t, tree, tarball)
		})
	}
}

func TestWhatAnotherUserKeptIsNotRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	tarball := largeRelease("15.1.1", 1<<20)
	s := serve(t, tarball)
	f, _ := testFetcher(t, s.Client())
	f.Patience.KeepAfter = 0
	must(t, os.Chown(interrupted(t, f, s, 1<<19), 1234, 1234))
	tree, err := fetchFrom(f, "15.1.1", s)
	must(t, err)
	wantWhole(t, tree, tarball)
	if s.seen().sent < len(tarball) {
		t.Errorf("only %d of %d bytes were sent", s.seen().sent, len(tarball))
	}
}

func TestAFastDownloadIsNotKept(t *testing.T) {
	s := serve(t, largeRelease("15.1.1", keepBytes+1<<20))
	f, _ := testFetcher(t, s.Client())
	f.Patience.KeepAfter = time.Hour
	kept := interrupted(t, f, s, keepBytes+1<<19)
	if _, err := os.Stat(kept); err == nil {
		t.Error("it was kept")
	}
}

func TestWhatIsKeptOfAnotherReleaseGoesAway(t *testing.T) {
	s := serve(t, largeRelease("15.1.1", 1<<20))
	f, _ := testFetcher(t, s.Client())
	f.Patience.KeepAfter = 0
	kept := interrupted(t, f, s, 1<<19)
	staging := filepath.Join(f.Store.PartialDir(), ".staging-15.1.0-123", "bin")
	if err := os.MkdirAll(staging, 0o755); err != nil {
		t.Fatal(err)
	}
	publish(t, f, oss("15.1.2"))
	if left, _ := os.ReadDir(f.Store.PartialDir()); len(left) > 0 {
		t.Errorf("left behind: %v (kept was %s)", left, kept)
	}
}
