//go:build hosts

package network

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// A download that is cut off goes on where it ended; the server counts.

const mib = 1 << 20

// large is a release of about 12 MiB as a tarball.
func (s *scene) large(v string) (tarball string, size int64) {
	s.T.Helper()
	s.Release(release.Spec{Version: v, Pad: 6 * mib})
	tarball = filepath.Join(s.Releases, release.Name(v, version.OSS))
	info, err := os.Stat(tarball)
	if err != nil {
		s.T.Fatal(err)
	}
	return tarball, info.Size()
}

// mirror serves a folder of tarballs in the cluster's place; each tarball goes
// through a writer that the test makes.
type mirror struct {
	s *scene
	// through stands between the file and the connection; n counts the requests
	// for tarballs from 1.
	through  func(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter
	requests atomic.Int64
	ranges   chan string // the Range header of each
}

func (s *scene) mirror(through func(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter) *mirror {
	m := &mirror{s: s, through: through, ranges: make(chan string, 100)}
	s.Breaks(func(w http.ResponseWriter, r *http.Request) bool {
		name, ok := strings.CutPrefix(r.URL.Path, "/releases/")
		if !ok || strings.HasSuffix(name, ".sha256") {
			return false
		}
		m.ranges <- r.Header.Get("Range")
		data, err := os.ReadFile(filepath.Join(s.Releases, name))
		if err != nil {
			http.NotFound(w, r)
			return true
		}
		w = m.through(w, r, m.requests.Add(1))
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(data)))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		return true
	})
	return m
}

// cut ends the connection after so many bytes.
type cut struct {
	http.ResponseWriter
	left int64
	// before is what happens then, before the connection ends.
	before func()
}

func (c *cut) Write(p []byte) (int, error) {
	if int64(len(p)) <= c.left {
		c.left -= int64(len(p))
		return c.ResponseWriter.Write(p)
	}
	c.ResponseWriter.Write(p[:c.left])
	http.NewResponseController(c.ResponseWriter).Flush()
	if c.before != nil {
		c.before()
	}
	panic(http.ErrAbortHandler)
}

// drip is slow enough to be kept for another run: 4 MiB/s.
type drip struct{ http.ResponseWriter }

func (d *drip) Write(p []byte) (written int, err error) {
	for len(p) > 0 && err == nil {
		n := min(len(p), 128<<10)
		if _, err = d.ResponseWriter.Write(p[:n]); err == nil {
			err = http.NewResponseController(d.ResponseWriter).Flush()
		}
		time.Sleep(31 * time.Millisecond)
		written, p = written+n, p[n:]
	}
	return written, err
}

// received asserts how many bytes of tarballs the server sent.
func (s *scene) received(what string, want int64) {
	s.T.Helper()
	got := s.Downloaded.Swap(0)
	// What was on the way when a connection ended is sent twice.
	if got < want || got > want+2*mib {
		s.T.Errorf("%s: the server sent %.1f MiB; want %.1f", what, float64(got)/mib, float64(want)/mib)
	}
}

func TestADownloadGoesOnWhereItWasCut(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	for _, tc := range []struct {
		name    string
		version string
		through func(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter
		sent    func(size int64) int64
		logs    string
	}{
		{"cut twice", "1.1.0", func(w http.ResponseWriter, _ *http.Request, n int64) http.ResponseWriter {
			if n <= 2 {
				return &cut{ResponseWriter: w, left: 4 * mib}
			}
			return w
		}, func(size int64) int64 { return size }, "connection lost after"},
		{"a server without ranges", "1.2.0", func(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter {
			r.Header.Del("Range")
			if n == 1 {
				return &cut{ResponseWriter: w, left: 6 * mib}
			}
			return w
		}, func(size int64) int64 { return size + 6*mib }, "the server cannot continue"},
	} {
		_, size := s.large(tc.version)
		s.Wants(tc.version)
		s.mirror(tc.through)
		s.Downloaded.Store(0)
		r := s.Try(updater, "update")
		if r.Code != 0 || !strings.Contains(r.Stderr, tc.logs) {
			t.Errorf("%s: exit code %d; want 0 and %q in\n%s", tc.name, r.Code, tc.logs, r.Stderr)
		}
		s.received(tc.name, tc.sent(size))
		s.Serves(tc.version)
	}
}

// The release is published anew under the same version while it is downloaded:
// the pieces would not fit.
func TestATarballExchangedInTheMiddleIsFetchedAnew(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	s.large("1.1.0")
	exchange := func() {
		s.Release(release.Spec{Version: "1.1.0", Pad: 6 * mib, Files: []release.File{{Name: "new", Data: []byte("#!/bin/sh\n")}}})
	}
	s.mirror(func(w http.ResponseWriter, _ *http.Request, n int64) http.ResponseWriter {
		if n == 1 {
			return &cut{ResponseWriter: w, left: 6 * mib, before: exchange}
		}
		return w
	})
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	if !s.Exists(linkDir + "/new") {
		t.Error("the version that is there is not the one that is published now")
	}
	if sum := strings.Fields(s.Must("sha256sum", programs+"/1.1.0/bin/teleport"))[0]; !strings.Contains(s.Read(store+"/1.1.0/manifest"), sum) {
		t.Error("the tree does not match its manifest")
	}
}

// Of three mirrors one is dead and one does not have the release. What no mirror
// has ends in one error that names each of them.
func TestAMirrorTakesOver(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	dead := strings.Replace(cluster.TemplateURL, "3080", "3999", 1)
	empty := strings.Replace(cluster.TemplateURL, "/releases/", "/elsewhere/", 1)
	s.Must(updater, "enable", "--proxy", cluster.ProxyAddress, "--template", empty, "--template", dead, "--template", cluster.TemplateURL)
	s.Linked("1.0.0")
	s.Wants("1.1.0")
	s.Configure(strings.Replace(s.Read(store+"/updates.yaml"), ":3999/releases", ":3080/nowhere", 1))
	text := s.Refused("no mirror has it", []string{"/elsewhere/teleport-v1.1.0", "/nowhere/teleport-v1.1.0", "/releases/teleport-v1.1.0", "published?"}, updater, "update")
	if n := strings.Count(text, "404 Not Found"); n != 3 {
		t.Errorf("three mirrors answered 404, %d are named:\n%s", n, text)
	}
}

// A server that sends some of a tarball and then nothing is given up after half
// a minute, and asked for the rest.
func TestAStalledDownloadGoesOn(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	_, size := s.large("1.1.0")
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	stalled, again := make(chan time.Time, 1), make(chan time.Time, 100)
	s.mirror(func(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter {
		if n == 1 {
			return &cut{ResponseWriter: w, left: 5 * mib, before: func() {
				stalled <- time.Now()
				select {
				case <-over:
				case <-r.Context().Done():
				}
			}}
		}
		again <- time.Now()
		return w
	})
	s.Wants("1.1.0")
	s.Downloaded.Store(0)
	r := s.Try(updater, "update")
	if r.Code != 0 || !strings.Contains(r.Stderr, "the server sends too little") {
		t.Fatalf("exit code %d:\n%s", r.Code, r.Stderr)
	}
	// Not the whole update, which takes as long as the machine needs for it.
	if waited := (<-again).Sub(<-stalled); waited > time.Minute {
		t.Errorf("the rest was asked for %v after the last byte", waited)
	}
	s.received("stalled", size)
	s.Serves("1.1.0")
}

func TestAKilledDownloadIsContinuedByTheNextRun(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0")
			s.RunsOn("1.0.0")
			_, size := s.large("1.1.0")
			reached, over := make(chan struct{}), make(chan struct{})
			m := s.mirror(func(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter {
				if n > 1 {
					return w
				}
				return &cut{ResponseWriter: &drip{w}, left: 7 * mib, before: func() {
					close(reached)
					select {
					case <-over:
					case <-r.Context().Done():
					}
				}}
			})
			t.Cleanup(func() { close(over) })
			s.Wants("1.1.0")
			s.Downloaded.Store(0)
			before := s.Look()
			p := s.Background(host.Command{Args: []string{updater, "update"}})
			select {
			case <-reached:
			case <-p.Done():
			}
			host.Wait(t, patience, func() error {
				names, _ := s.Names(store + "/partial")
				for _, name := range names {
					if info, err := s.Lstat(store + "/partial/" + name); err == nil && strings.HasSuffix(name, ".part") && info.Size() >= 6*mib {
						return nil
					}
				}
				return fmt.Errorf("in partial/ is %v", names)
			})
			if err := p.Signal(signal); err != nil {
				t.Fatal(err)
			}
			r, err := p.Wait()
			if err != nil {
				t.Fatal(err)
			}
			after := s.Look()
			switch signal {
			case syscall.SIGKILL:
				if r.Code != 128+9 {
					t.Errorf("exit code %d", r.Code)
				}
				for path := range after {
					if strings.HasPrefix(path, store+"/partial/.staging-") || strings.HasPrefix(path, programs+"/.staging-") {
						delete(after, path)
					}
				}
			case syscall.SIGTERM:
				if r.Code != 1 || strings.Count(r.Stderr, "error: ") != 1 || !strings.Contains(r.Stderr, "interrupted") {
					t.Errorf("exit code %d:\n%s", r.Code, r.Stderr)
				}
			}
			if diff := before.Diff(after); len(diff) > 0 {
				t.Errorf("the host changed:\n%s", strings.Join(diff, "\n"))
			}

			s.Must(updater, "update")
			s.received("both runs", size)
			<-m.ranges
			var from int64
			if _, err := fmt.Sscanf(<-m.ranges, "bytes=%d-", &from); err != nil || from < 6*mib {
				t.Errorf("the second run began at byte %d", from)
			}
			s.Serves("1.1.0")
			if names, _ := s.Names(store + "/partial"); len(names) > 0 {
				t.Errorf("left in partial/: %v", names)
			}
		})
	}
}
