package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"teleport-update/internal/sharedbuffer"
)

// The journal has the time of each line; whoever else reads the log has not.
func TestTheJournalGetsOneTimestampALine(t *testing.T) {
	for _, journal := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "stream")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		t.Setenv("JOURNAL_STREAM", "")
		if journal {
			t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
		}
		app := &cli.App{ErrWriter: f, Flags: []cli.Flag{&cli.StringFlag{Name: "log-format", Value: "text"}}, Action: func(c *cli.Context) error {
			log, err := newLog(c)
			if err == nil {
				log.Info("serving")
			}
			return err
		}}
		if err := app.Run([]string{"teleport-find"}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.HasPrefix(string(text), "level=INFO msg=serving"); got != journal || !strings.Contains(string(text), "serving") {
			t.Errorf("read by the journal %v: %q", journal, text)
		}
	}
}

// Whatever somebody without a secret sends to the built server, its log gets short lines of it, and one a
// second of what fails before there is an answer.
func TestNobodyWithoutASecretFillsTheLog(t *testing.T) {
	dir := t.TempDir()
	releases, repository := filepath.Join(dir, "releases"), filepath.Join(dir, "repository")
	for _, d := range []string{releases, filepath.Join(repository, "apt")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A link that leads out of its folder cannot be read.
	const name = "teleport-v1.0.0-linux-amd64-bin.tar.gz"
	for _, link := range []string{filepath.Join(releases, name), filepath.Join(repository, "apt", "InRelease")} {
		if err := os.Symlink("/etc/hostname", link); err != nil {
			t.Fatal(err)
		}
	}
	for suffix, flags := range map[string][]string{"releases": {"--releases", releases}, "repository": {"--repository", repository, "--releases", releases}} {
		t.Run(suffix, func(t *testing.T) {
			cmd := exec.Command(binary(t), append([]string{"serve", "--listen", "127.0.0.1:0", "--self-signed", "--access-log", "--edition", "oss"}, flags...)...)
			var log sharedbuffer.Buffer
			cmd.Stderr = &log
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			line, _ := bufio.NewReader(stdout).ReadString('\n')
			_, address, is := strings.Cut(strings.TrimSpace(line), "https://")
			if !is {
				t.Fatalf("it says %q\n%s", line, log.String())
			}
			long := strings.Repeat("x", 4000)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			began := time.Now()
			const times = 40
			for range times {
				conn, err := net.Dial("tcp", address) // no TLS
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "GET /%s HTTP/1.0\r\n\r\n", long)
				io.Copy(io.Discard, conn)
				conn.Close()
				for _, path := range []string{"/" + long + "?" + long, "/releases/" + name, "/apt/InRelease"} {
					req, err := http.NewRequest("GET", "https://"+address+path, nil)
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Range", "bytes="+long)
					resp, err := client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
			// One a second, of each of the three that write them, and the first.
			most := int(time.Since(began)/time.Second) + 2
			seen := map[string]int{}
			for line := range strings.Lines(log.String()) {
				if len(line) > 1500 {
					t.Errorf("a line of %d bytes: %.200q", len(line), line)
				}
				for _, what := range []string{"TLS handshake", "a release cannot be read", "a file of the repository cannot be read"} {
					if strings.Contains(line, what) {
						seen[what]++
					}
				}
			}
			for what, n := range seen {
				if n > most {
					t.Errorf("%d lines of %q in %s", n, what, time.Since(began))
				}
			}
			if len(seen) < 2 {
				t.Errorf("the log has only %v\n%s", seen, log.String())
			}
		})
	}
}
