//go:build hosts

package clusterfaults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a find server that runs. Another one takes its place after a kill.
type process struct {
	cmd   *exec.Cmd
	url   string
	log   *os.File
	ended chan struct{}

	mu     sync.Mutex
	paused bool
	// refused are groups that this process has told not to update after it had told them to, by version, and since when.
	refused map[string]time.Time
	// after is the halts that the store had when this process began.
	after map[string]bool
}

// findServer is a place for processes.
type findServer struct {
	w      *world
	number int
	client *http.Client // of the admin socket
	plain  *http.Client

	mu     sync.Mutex
	now    *process   // nil: none runs
	before []*process // the last ones, with the one that runs
}

func newServer(w *world, number int) *findServer {
	s := &findServer{w: w, number: number, plain: &http.Client{Timeout: 30 * time.Second}}
	socket := s.socket()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	s.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	return s
}

func (s *findServer) socket() string { return filepath.Join(s.w.dir, fmt.Sprint("admin", s.number)) }
func (s *findServer) clock() string  { return filepath.Join(s.w.dir, fmt.Sprint("clock", s.number)) }

func (s *findServer) running() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// start runs the server, and tries again for as long as the database keeps it from starting.
func (s *findServer) start() {
	s.w.t.Helper()
	for attempt := 1; ; attempt++ {
		err := s.startOnce()
		if err == nil {
			return
		}
		if attempt == 30 {
			s.w.t.Fatalf("server %d does not start: %v", s.number, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (s *findServer) startOnce() error {
	log, err := os.CreateTemp(s.w.dir, fmt.Sprint("log", s.number, "-"))
	if err != nil {
		return err
	}
	p := &process{log: log, ended: make(chan struct{}), refused: make(map[string]time.Time), after: s.w.halts()}
	p.cmd = exec.Command(s.w.program, "serve", "--listen", "127.0.0.1:0", "--store", s.w.db.address(s.number), "--admin-socket", s.socket())
	p.cmd.Env = append(os.Environ(), "FLEET_CLOCK="+s.clock(), "FLEET_PASSES=1")
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	os.Remove(s.socket())
	if err := p.cmd.Start(); err != nil {
		return err
	}
	r := bufio.NewReader(out)
	line, _ := r.ReadString('\n')
	go func() {
		io.Copy(io.Discard, r)
		p.cmd.Wait()
		close(p.ended)
	}()
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("it said %q and %s", line, p.said())
	}
	p.url = url
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = p
	s.before = append(s.before, p)
	s.before = s.before[max(0, len(s.before)-3):]
	return nil
}

// all are the last processes, the one that runs among them.
func (s *findServer) all() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.before)
}

func (s *findServer) kill() {
	s.mu.Lock()
	p := s.now
	s.now = nil
	s.mu.Unlock()
	if p != nil {
		p.cmd.Process.Kill()
		<-p.ended
	}
}

func (s *findServer) pause(on bool) {
	p := s.running()
	if p == nil {
		return
	}
	p.mu.Lock()
	p.paused = on
	p.mu.Unlock()
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	p.cmd.Process.Signal(signal)
}

func (p *process) isPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// said is the log of the process.
func (p *process) said() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(text)
}

// admin asks the admin API.
func (s *findServer) admin(method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(s.w.t.Context(), method, "http://admin"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return answer(s.client, req, into)
}

func answer(client *http.Client, req *http.Request, into any) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &statusError{resp.StatusCode, strings.TrimSpace(string(data))}
	}
	if err == nil && into != nil {
		err = json.Unmarshal(data, into)
	}
	return err
}

type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprint(e.code, " ", e.text) }

// findAnswer is an answer of find.
type findAnswer struct {
	Version string `json:"agent_version"`
	Update  bool   `json:"agent_autoupdate"`
}

// find asks a process what a host is to do.
func (s *findServer) find(p *process, h *member) (a findAnswer, err error) {
	req, err := http.NewRequestWithContext(s.w.t.Context(), http.MethodGet, p.url+"/v1/webapi/find?group="+h.group+"&host="+h.id, nil)
	if err != nil {
		return a, err
	}
	return a, answer(s.plain, req, &a)
}
