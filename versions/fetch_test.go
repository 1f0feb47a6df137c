package versions

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/internal/version"
)

// releaseServer is a real TLS server that serves one tarball, with faults.
type releaseServer struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	tarball []byte
	etag    string
	fault   func(n int, w *faultyWriter, r *http.Request) bool
	traffic traffic
}

// traffic is what a server saw.
type traffic struct {
	requests []string // "GET PATH RANGE"
	ifRange  []string // of the requests with a range
	count    int      // requests for the tarball
	sent     int      // bytes of tarball
}

// seen returns the traffic so far. Handlers may still be running.
func (s *releaseServer) seen() traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.traffic
	seen.requests, seen.ifRange = slices.Clone(seen.requests), slices.Clone(seen.ifRange)
	return seen
}

// forget begins anew, without faults.
func (s *releaseServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.traffic = nil, traffic{}
}

func serve(t *testing.T, tarball []byte) *releaseServer {
	t.Helper()
	s := &releaseServer{t: t, tarball: tarball, etag: `"one"`}
	s.Server = httptest.NewTLSServer(s)
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// faultyWriter can cut the connection after some bytes, or hold it.
type faultyWriter struct {
	http.ResponseWriter
	s        *releaseServer
	r        *http.Request
	left     int  // bytes until the fault; negative: none
	stall    bool // the fault is silence, not a cut
	reset    bool // the cut is a RST
	noRanges bool
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if w.left >= 0 && len(p) > w.left {
		n, _ := w.ResponseWriter.Write(p[:w.left])
		w.s.add(n)
		w.left = 0
		w.ResponseWriter.(http.Flusher).Flush()
		switch {
		case w.stall:
			<-w.r.Context().Done()
		case w.reset:
			conn, _, err := w.ResponseWriter.(http.Hijacker).Hijack()
			if err == nil {
				if tcp, ok := netConn(conn).(*net.TCPConn); ok {
					tcp.SetLinger(0)
				}
				conn.Close()
			}
		}
		panic(http.ErrAbortHandler)
	}
	if w.left >= 0 {
		w.left -= len(p)
	}
	n, err := w.ResponseWriter.Write(p)
	w.s.add(n)
	return n, err
}

func netConn(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

func (s *releaseServer) add(n int) {
	s.mu.Lock()
	s.traffic.sent += n
	s.mu.Unlock()
}

func (s *releaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.traffic.requests = append(s.traffic.requests, strings.TrimSpace("GET "+r.URL.Path+" "+r.Header.Get("Range")))
	if r.Header.Get("Range") != "" {
		s.traffic.ifRange = append(s.traffic.ifRange, r.Header.Get("If-Range"))
	}
	sum := strings.HasSuffix(r.URL.Path, ".sha256")
	if !sum {
		s.traffic.count++
	}
	n, fault, tarball, etag := s.traffic.count, s.fault, s.tarball, s.etag
	s.mu.Unlock()
	if sum {
		fmt.Fprintf(w, "%s  release\n", digestHex(tarball))
		return
	}
	fw := &faultyWriter{ResponseWriter: w, s: s, r: r, left: -1}
	if fault != nil && fault(n, fw, r) {
		return
	}
	if fw.noRanges {
		w.Header().Set("Content-Length", fmt.Sprint(len(tarball)))
		fw.Write(tarball)
		return
	}
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(fw, r, "", time.Time{}, strings.NewReader(string(tarball)))
}

// replace puts another tarball in the place of the one that was served.
func (s *releaseServer) replace(tarball []byte, etag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tarball, s.etag = tarball, etag
}

func (s *releaseServer) template() *Template {
	return mustTemplate(s.t, s.URL+"/teleport-v{{ .Version }}.tar.gz")
}

// cutting cuts each of the first n connections after so many bytes.
func cutting(n, after int) func(int, *faultyWriter, *http.Request) bool {
	return func(count int, w *faultyWriter, _ *http.Request) bool {
		if count <= n {
			w.left = after
		}
		return false
	}
}

func fetchFrom(f *Fetcher, v string, servers ...*releaseServer) (Tree, error) {
	req := FetchRequest{Release: oss(v)}
	for _, s := range servers {
		req.Sources = append(req.Sources, s.template())
	}
	return f.Fetch(context.Background(), req)
}

func wantWhole(t *testing.T, tree Tree, tarball []byte) {
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
			f.Patience.StallWindow, f.Patience.StallBytes = 200*time.Millisecond, 1<<10
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
		w.Write(tarOf(append(soundItems("15.1.1"), item{name: "teleport/tbot", data: strings.Repeat(string(noise), 2<<20)})...))
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
				w.ResponseWriter.Write(gz(tarOf(soundItems("15.1.1")...))[:100])
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
			t.Parallel()
			s := serve(t, tarball)
			s.fault = tc.fault
			f, _ := testFetcher(t, s.Client())
			f.Patience.StallWindow, f.Patience.StallBytes = 150*time.Millisecond, 1<<10
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
	req := FetchRequest{Release: oss("15.1.1"), Sources: []*Template{s.template()}, ExpectSHA256: digestHex(damaged)}
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
			_, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{mustTemplate(t, url)}})
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
	_, err := f.Fetch(ctx, FetchRequest{Release: oss("15.1.1"), Sources: []*Template{s.template()}})
	if !errors.Is(err, reason) {
		t.Errorf("error %v; want %v", err, reason)
	}
	staged, _ := filepath.Glob(filepath.Join(f.Store.PartialDir(), ".staging-*"))
	if len(staged) > 0 {
		t.Errorf("left behind: %q", staged)
	}
}

func TestADamagedVersionIsReplacedAndKeepsItsBackup(t *testing.T) {
	for name, replace := range map[string]bool{"found damaged": false, "told to": true} {
		t.Run(name, func(t *testing.T) {
			f, _ := testFetcher(t, nil)
			tree := publish(t, f, oss("15.1.1"))
			if err := os.MkdirAll(tree.BackupDir(), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{tree.BackupDir() + "/sqlite.db", tree.BackupDir() + "/backup.yaml"} {
				if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if !replace {
				if err := os.Truncate(tree.Binary("tsh"), 1); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.Stat(tree.Dir)
			if err != nil {
				t.Fatal(err)
			}
			tarball := gz(tarOf(soundItems("15.1.1")...))
			again, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, tarball)}, Replace: replace})
			if err != nil {
				t.Fatal(err)
			}
			if again != tree {
				t.Errorf("the tree is %+v; want %+v", again, tree)
			}
			if after, err := os.Stat(tree.Dir); err != nil || os.SameFile(before, after) {
				t.Errorf("the folder was not exchanged (%v)", err)
			}
			wantWhole(t, again, tarball)
			got := contents(t, tree.BackupDir())
			want := []string{"backup.yaml -rw------- rows", "sqlite.db -rw------- rows"}
			if !slices.Equal(got, want) {
				t.Errorf("backup holds %q; want %q", got, want)
			}
			if info, err := os.Stat(tree.BackupDir()); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("backup has mode %v, %v; want 0700", info.Mode(), err)
			}
			if left, _ := os.ReadDir(f.Store.PartialDir()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAVersionsNameThatIsTakenIsNotTouched(t *testing.T) {
	f, _ := testFetcher(t, nil)
	if err := os.MkdirAll(f.Store.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Store.Dir+"/15.1.1", []byte("somebody's file"), 0o644); err != nil {
		t.Fatal(err)
	}
	tree := publish(t, f, oss("15.1.1"))
	if filepath.Base(tree.Dir) != "15.1.1_oss" {
		t.Errorf("the tree is in %s", tree.Dir)
	}
	if err := os.Symlink("elsewhere", f.Store.Dir+"/15.1.1_enterprise"); err != nil {
		t.Fatal(err)
	}
	_, err := f.Fetch(context.Background(), FetchRequest{Release: Release{"15.1.1", version.Enterprise}, Sources: []*Template{onDisk(t, gz(tarOf(soundItems("15.1.1")...)))}})
	if err == nil || !strings.Contains(err.Error(), "move them away") {
		t.Errorf("error %v; want one that names what is in the way", err)
	}
	if data, err := os.ReadFile(f.Store.Dir + "/15.1.1"); err != nil || string(data) != "somebody's file" {
		t.Errorf("somebody's file holds %q, %v", data, err)
	}
}

func TestOnlyRegularFilesAreFetchedFromThisHost(t *testing.T) {
	f, _ := testFetcher(t, nil)
	f.Patience.Backoff, f.Patience.MaxBackoff = time.Hour, time.Hour // none is worth a second look
	dir := t.TempDir()
	for name, want := range map[string]string{dir: "not a regular file", "/dev/zero": "not a regular file", dir + "/missing": "release not found"} {
		_, err := f.Fetch(context.Background(), FetchRequest{
			Release: oss("15.1.1"), Sources: []*Template{mustTemplate(t, "file://"+name)}, ExpectSHA256: digestHex(nil),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", name, err, want)
		}
	}
}
