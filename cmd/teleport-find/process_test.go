package main

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/internal/sharedbuffer"
	"teleport-update/internal/webclient"
)

// built is the program as the Makefile builds it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "teleport-find-test-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "teleport-find")
	out, err := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-ldflags", "-X main.version=1.2.3-test", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return binary, nil
})

// process is a running teleport-find.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	caFile string
	client *http.Client
	log    sharedbuffer.Buffer
	out    sharedbuffer.Buffer
	drain  chan struct{}
}

// serveProcess returns once the server says that it listens.
func serveProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return serveProgram(t, binary(t), env, args...)
}

// serveProgram is serveProcess of another build.
func serveProgram(t *testing.T, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, drain: make(chan struct{})}
	p.cmd = exec.Command(program, append([]string{"--debug", "serve"}, args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.log
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	reader := bufio.NewReader(stdout)
	line, err := reader.ReadString('\n')
	var ok bool
	if p.url, ok = strings.CutPrefix(strings.TrimSpace(line), "listening on "); !ok {
		t.Fatalf("it says %q (%v)\n%s", line, err, p.log.String())
	}
	go func() {
		defer close(p.drain)
		io.Copy(&p.out, reader)
	}()
	return p
}

func (p *process) stop(signal os.Signal) int {
	p.t.Helper()
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	<-p.drain
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) http() *http.Client {
	p.t.Helper()
	if p.client == nil {
		client, err := webclient.New(webclient.Options{CAFile: p.caFile})
		if err != nil {
			p.t.Fatal(err)
		}
		p.client = client
	}
	return p.client
}

func (p *process) ask(group string) find.Answer {
	p.t.Helper()
	answer, err := (&find.Client{HTTP: p.http()}).Ask(p.t.Context(), find.Request{Proxy: p.url, Group: group})
	if err != nil {
		p.t.Fatal(err)
	}
	return answer
}

func (p *process) get(path string) (int, string) {
	p.t.Helper()
	resp, err := p.http().Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (p *process) until(what string, done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s; the log:\n%s", what, p.log.String())
		}
	}
}

// logged waits for a line of the log that matches a pattern, and returns the pattern's first group. The server says on stdout that
// it listens, and stderr is another pipe: what was logged before that line may be read after it.
func (p *process) logged(pattern string) (group string) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	p.until("the log has no "+pattern, func() bool {
		m := re.FindStringSubmatch(p.log.String())
		if m != nil {
			group = m[1]
		}
		return m != nil
	})
	return group
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
