package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Pooler starts pgbouncer before a server, with further settings, and returns the address of a database through it. It
// skips the test on a machine without pgbouncer, which "make test-nightly" installs.
func (s *Server) Pooler(database string, settings ...string) (address string) {
	s.t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if os.Getenv("FAULTS") == "all" {
			s.t.Fatal("there is no pgbouncer here: apt-get install pgbouncer")
		}
		s.t.Skip("there is no pgbouncer here: apt-get install pgbouncer")
	}
	dir, err := os.MkdirTemp(s.root, "pooler")
	if err != nil {
		s.t.Fatal(err)
	}
	lines := append([]string{
		"[databases]", fmt.Sprintf("* = host=%s port=5432", s.socket),
		"[pgbouncer]", "unix_socket_dir = " + dir, "listen_addr =", "listen_port = 5432", "auth_type = trust", "auth_file = " + dir + "/users",
		"logfile = " + dir + "/log",
	}, settings...)
	file := filepath.Join(dir, "pgbouncer.ini")
	for name, text := range map[string]string{file: strings.Join(lines, "\n") + "\n", dir + "/users": `"postgres" ""` + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := Own(dir); err != nil {
		s.t.Fatal(err)
	}
	c := s.command("pgbouncer", "-q", file)
	c.Path, c.Args[0] = program, program
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		c.Process.Signal(syscall.SIGKILL)
		c.Wait()
	})
	for limit := time.Now().Add(time.Minute); s.command("pg_isready", "-q", "-h", dir, "-U", "postgres", "-d", database).Run() != nil; {
		if time.Now().After(limit) {
			log, _ := os.ReadFile(dir + "/log")
			s.t.Fatalf("pgbouncer does not start:\n%s", log)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "postgres://postgres@/" + database + "?" + url.Values{"host": {dir}}.Encode()
}
