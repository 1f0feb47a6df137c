package fetch

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/tarball"
)

func TestALostConnectionIsContinuedWhereItEnded(t *testing.T) {
	tarball := largeRelease("15.1.1", 3<<20)
	for name, tc := range map[string]struct {
		etag  string
		fault func(int, *faultyWriter, *http.Request) bool
	}{
		"cut": {`"one"`, cutting(5, 500<<10)},
		"reset": {`"one"`, func(n int, w *faultyWriter, r *http.Request) bool {
			w.reset = true
			return cutting(5, 500<<10)(n, w, r)
		}},
		"without any ETag": {"", cutting(5, 500<<10)},
		"with a weak ETag": {`W/"one"`, cutting(5, 500<<10)},
		"stalled": {`"one"`, func(n int, w *faultyWriter, r *http.Request) bool {
			w.stall = true
			return cutting(1, 500<<10)(n, w, r)
		}},
		"refused in between": {`"one"`, func(n int, w *faultyWriter, r *http.Request) bool {
			if n%2 == 0 {
				http.Error(w.ResponseWriter, "overloaded", http.StatusServiceUnavailable)
				return true
			}
			return cutting(4, 500<<10)(n, w, r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tarball)
			s.etag, s.fault = tc.etag, tc.fault
			f, log := testFetcher(t, s.Client())
			if name == "stalled" {
				f.Patience.StallWindow, f.Patience.StallBytes = 2*time.Second, 1<<10
			}
			tree, err := fetchFrom(f, "15.1.1", s)
			if err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			wantWhole(t, tree, tarball)
			// What was in flight when a connection broke is sent twice.
			if limit := 2 * len(tarball); s.seen().sent > limit || s.seen().count < 2 {
				t.Errorf("%d bytes in %d requests; want at most %d, in several", s.seen().sent, s.seen().count, limit)
			}
			if !slices.ContainsFunc(s.seen().requests, func(r string) bool { return strings.Contains(r, " bytes=") }) {
				t.Errorf("no range was asked for: %q", s.seen().requests)
			}
			for _, condition := range s.seen().ifRange {
				if strong := !strings.HasPrefix(tc.etag, "W/"); strong && condition != tc.etag || !strong && condition != "" {
					t.Errorf("If-Range is %q for the ETag %q", condition, tc.etag)
				}
			}
		})
	}
}

func TestAServerWithoutRangesSendsAllAgain(t *testing.T) {
	tarball := largeRelease("15.1.1", 2<<20)
	s := serve(t, tarball)
	s.fault = func(n int, w *faultyWriter, r *http.Request) bool {
		w.noRanges = true
		return cutting(1, 1<<20)(n, w, r)
	}
	f, _ := testFetcher(t, s.Client())
	tree, err := fetchFrom(f, "15.1.1", s)
	if err != nil {
		t.Fatal(err)
	}
	wantWhole(t, tree, tarball)
	if s.seen().count != 2 {
		t.Errorf("%d requests; want 2", s.seen().count)
	}
}

func TestATarballThatChangesMeanwhileIsFetchedWhole(t *testing.T) {
	before, after := largeRelease("15.1.1", 2<<20), largeRelease("15.1.1", 2<<20+512)
	for name, noRanges := range map[string]bool{"with ranges": false, "without ranges": true} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, before)
			s.fault = func(n int, w *faultyWriter, r *http.Request) bool {
				w.noRanges = noRanges
				if n == 1 {
					w.left = 1 << 20
					s.replace(after, `"two"`)
				}
				return false
			}
			f, log := testFetcher(t, s.Client())
			tree, err := fetchFrom(f, "15.1.1", s)
			if err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			wantWhole(t, tree, after)
		})
	}
}

func TestATarballThatChangesUnnoticedIsFetchedWhole(t *testing.T) {
	// No ETag, no date, the same length: only what was received tells.
	stored := func(noise byte) []byte {
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
		must(t, err)
		w.Write(tarball.Of(append(tarball.Sound("15.1.1"), tarball.Item{Name: "teleport/tbot", Data: strings.Repeat(string(noise), 2<<20)})...))
		w.Close()
		return out.Bytes()
	}
	before, after := stored('a'), stored('b')
	if len(before) != len(after) {
		t.Fatalf("lengths %d and %d", len(before), len(after))
	}
	s := serve(t, before)
	s.etag = ""
	s.fault = func(n int, w *faultyWriter, r *http.Request) bool {
		if n == 1 {
			w.left = 1 << 20
			s.replace(after, "")
		}
		return false
	}
	f, log := testFetcher(t, s.Client())
	tree, err := fetchFrom(f, "15.1.1", s)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	wantWhole(t, tree, after)
}

func TestARangeOfSomethingElseIsNotTaken(t *testing.T) {
	tarball := largeRelease("15.1.1", 2<<20)
	longer, same := largeRelease("15.1.1", 2<<20+1), slices.Clone(tarball)
	same[len(same)-1<<19] ^= 1
	const changed = "changed at the server"
	for name, tc := range map[string]struct {
		want   string // part of the error
		answer func(w http.ResponseWriter, r *http.Request)
	}{
		"other bytes than asked for": {"not with those from", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(tarball)-1, len(tarball)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(tarball)
		}},
		"no range at all": {"not with those from", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			w.Write(tarball)
		}},
		"another ETag": {changed, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"two"`)
			r.Header.Del("If-Range")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(same)))
		}},
		"another length": {changed, func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("If-Range")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(longer)))
		}},
		"the range does not exist": {changed, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes */100")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}},
		"not modified": {"304", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotModified)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tarball)
			s.fault = func(n int, w *faultyWriter, r *http.Request) bool {
				if r.Header.Get("Range") != "" {
					tc.answer(w.ResponseWriter, r)
					return true
				}
				w.left = 1 << 20
				return false
			}
			f, _ := testFetcher(t, s.Client())
			if tree, err := fetchFrom(f, "15.1.1", s); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("published %+v, error %v; want the error %q", tree, err, tc.want)
			}
			if _, ok, _ := f.Store.Lookup(oss("15.1.1")); ok {
				t.Error("a version is there")
			}
		})
	}
}

func busyFor(retryAfter string) func(int, *faultyWriter, *http.Request) bool {
	return func(_ int, w *faultyWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w.ResponseWriter, "overloaded", http.StatusServiceUnavailable)
		return true
	}
}

// Each file is asked for again once its server has been left alone for as long as it wants.
func TestABusyServerIsLeftAloneForAShortTime(t *testing.T) {
	t.Parallel()
	tarball := soundTarball("15.1.1")
	s := serve(t, tarball)
	var mu sync.Mutex
	asked := make(map[string]time.Time)
	early := make(map[string]bool)
	serves := s.Server.Config.Handler
	s.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		first, again := asked[r.URL.Path]
		asked[r.URL.Path] = time.Now()
		if again && time.Since(first) < time.Second {
			early[r.URL.Path] = true
		}
		mu.Unlock()
		if again {
			serves.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "1")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	})
	f, log := testFetcher(t, s.Client())
	f.Patience.MaxBackoff = time.Second
	tree, err := fetchFrom(f, "15.1.1", s)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	wantWhole(t, tree, tarball)
	if len(asked) < 2 || len(early) > 0 {
		t.Errorf("asked for %v, and before the time for %v", asked, early)
	}
	if !strings.Contains(log.String(), "it wants to be asked again after 1s") {
		t.Errorf("the log does not say for how long the server wants to be left alone:\n%s", log)
	}
}

func TestAServerThatBringsNothingNewIsGivenUp(t *testing.T) {
	tarball := largeRelease("15.1.1", 2<<20)
	for name, tc := range map[string]struct {
		fault    func(int, *faultyWriter, *http.Request) bool
		requests int
		want     string
	}{
		"always busy": {
			fault: func(_ int, w *faultyWriter, _ *http.Request) bool {
				http.Error(w.ResponseWriter, "overloaded", http.StatusServiceUnavailable)
				return true
			},
			requests: 3,
			want:     "503",
		},
		"busy for longer than it is waited for": {fault: busyFor("3600"), requests: 1, want: `"503 Service Unavailable" (it wants to be asked again after 1h0m0s)`},
		"busy until a day that is long past": {
			fault:    busyFor("Mon, 02 Mar 2020 12:00:00 GMT"),
			requests: 3,
			want:     `"503 Service Unavailable" (it wants to be asked again at 2020-03-02T12:00:00Z)`,
		},
		"busy for as long as nobody can tell": {fault: busyFor("soon"), requests: 3, want: `the server answered "503 Service Unavailable"`},
		"forbidden": {
			fault: func(_ int, w *faultyWriter, _ *http.Request) bool {
				http.Error(w.ResponseWriter, "no", http.StatusForbidden)
				return true
			},
			requests: 1,
			want:     "403",
		},
		"silent before the headers": {
			fault: func(_ int, w *faultyWriter, r *http.Request) bool {
				<-r.Context().Done()
				return true
			},
			requests: 3,
			want:     "sends too little",
		},
		"a drip of bytes": {
			fault: func(_ int, w *faultyWriter, r *http.Request) bool {
				w.Header().Set("Content-Length", "100000")
				for r.Context().Err() == nil {
					io.WriteString(w.ResponseWriter, "x")
					w.ResponseWriter.(http.Flusher).Flush()
					select {
					case <-r.Context().Done():
					case <-time.After(10 * time.Millisecond):
					}
				}
				return true
			},
			requests: 3,
			want:     "sends too little",
		},
		"cut again and again at the same place": {
			fault: func(n int, w *faultyWriter, _ *http.Request) bool {
				w.left, w.noRanges = 500<<10, true
				return false
			},
			requests: 3,
			want:     "connection lost",
		},
		"compressed on the way": {
			fault: func(_ int, w *faultyWriter, _ *http.Request) bool {
				w.Header().Set("Content-Encoding", "gzip")
				return false
			},
			requests: 1,
			want:     "Content-Encoding",
		},
		"a sign-in page": {
			fault: func(_ int, w *faultyWriter, _ *http.Request) bool {
				io.WriteString(w.ResponseWriter, "<html>Sign in to the network</html>")
				return true
			},
			requests: 1,
			want:     "did something other than the server answer?",
		},
		"endless": {
			fault: func(_ int, w *faultyWriter, r *http.Request) bool {
				w.ResponseWriter.Write(soundTarball("15.1.1")[:100])
				for r.Context().Err() == nil {
					w.ResponseWriter.Write(make([]byte, 64<<10))
				}
				return true
			},
			requests: 1,
			want:     "",
		},
		"longer than the limit": {
			fault: func(_ int, w *faultyWriter, r *http.Request) bool {
				w.Header().Set("Content-Length", "100000000000")
				w.ResponseWriter.Write(tarball)
				return true
			},
			requests: 1,
			want:     "more than the limit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if t.Parallel(); testing.Short() && tc.want == "sends too little" {
				t.Skip("it is waited for for seconds")
			}
			s := serve(t, tarball)
			s.fault = tc.fault
			f, _ := testFetcher(t, s.Client())
			if tc.want == "sends too little" {
				// Long enough for a handshake, or the server never saw the request.
				f.Patience.StallWindow, f.Patience.StallBytes = 3*time.Second, 1<<10
			}
			_, err := fetchFrom(f, "15.1.1", s)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), s.URL) {
				t.Errorf("error %v; want it to name the server and say %q", err, tc.want)
			}
			if s.seen().count != tc.requests {
				t.Errorf("%d requests; want %d", s.seen().count, tc.requests)
			}
			entries, err := os.ReadDir(f.Store.Dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("versions holds %v, %v; want partial alone", entries, err)
			}
			staged, _ := filepath.Glob(filepath.Join(f.Store.PartialDir(), ".staging-*"))
			if len(staged) > 0 {
				t.Errorf("left behind: %q", staged)
			}
		})
	}
}
