// Package pgtest runs real PostgreSQL servers for tests: in a temporary folder, on a Unix socket, as a user without
// rights, and for one test only.
package pgtest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Server is a PostgreSQL server.
type Server struct {
	t       testing.TB
	dir     string // of the data
	root    string // of the files outside of its Place
	socket  string // its folder
	bin     string
	place   Place
	process *exec.Cmd
	ended   chan struct{}
}

// Need skips a test on a machine without PostgreSQL, unless CI is set, and with -short: a database takes seconds to begin.
func Need(t testing.TB) (bin string) {
	t.Helper()
	if testing.Short() {
		t.Skip("a database takes seconds to begin")
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1])
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no PostgreSQL here: apt-get install postgresql")
	}
	t.Skip("there is no PostgreSQL here: apt-get install postgresql")
	return ""
}

// Place is the place of a server, if it must not be just anywhere.
type Place struct {
	Dir       string   // an empty folder for its data
	Namespace string   // the path of its network; needs root
	Host      string   // its address for standbys; they come from any address
	Settings  []string // further lines of postgresql.conf
}

// Start makes a server and starts it. It is gone when the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartAt(t, Place{})
}

// StartAt is Start for a server at a place.
func StartAt(t testing.TB, p Place) *Server {
	t.Helper()
	s := placed(t, Need(t), p)
	s.run("initdb", "-D", s.dir, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1")
	// No segments of shared memory stay behind in /dev/shm after a kill.
	s.settings("listen_addresses = ''", "unix_socket_directories = '"+s.socket+"'", "wal_level = replica", "wal_keep_size = 64",
		"max_wal_senders = 4", "shared_buffers = 16MB", "max_connections = 60", "hot_standby = on", "dynamic_shared_memory_type = mmap")
	s.settings(p.Settings...)
	if p.Host != "" {
		s.add("pg_hba.conf", "hostssl all all 0.0.0.0/0 trust", "host replication all 0.0.0.0/0 trust")
	}
	s.Boot()
	return s
}

// Own gives a file to the user of the servers.
func Own(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return os.Chown(path, uid, gid)
}

func placed(t testing.TB, bin string, p Place) *Server {
	t.Helper()
	// Not t.TempDir: the path of a socket has 107 bytes at most.
	root, err := os.MkdirTemp("/tmp", "pg")
	if err != nil {
		t.Fatal(err)
	}
	if p.Dir == "" {
		p.Dir = root
	}
	s := &Server{t: t, bin: bin, place: p, root: root, dir: filepath.Join(p.Dir, "data"), socket: filepath.Join(root, "socket")}
	t.Cleanup(s.Remove)
	for _, dir := range []string{s.dir, s.socket} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() != 0 {
		return s
	}
	uid, gid := nobody(t)
	for _, dir := range []string{root, s.dir, s.socket} {
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func nobody(t testing.TB) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid
}

// command returns a command of PostgreSQL, whose programs refuse to be run by root.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	program := filepath.Join(s.bin, name)
	c := exec.Command(program, args...)
	if s.place.Namespace != "" {
		uid, gid := nobody(s.t)
		inside := []string{"--net=" + s.place.Namespace, "--setuid", strconv.Itoa(uid), "--setgid", strconv.Itoa(gid), "--", program}
		c = exec.Command("nsenter", append(inside, args...)...) // it becomes the program
	}
	c.Dir, c.Env = s.dir, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "TZ=UTC"}
	if os.Geteuid() == 0 && s.place.Namespace == "" {
		uid, gid := nobody(s.t)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, Pdeathsig: syscall.SIGKILL}
	}
	return c
}

func (s *Server) run(name string, args ...string) {
	s.t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (s *Server) settings(lines ...string) {
	s.t.Helper()
	s.add("postgresql.conf", lines...)
}

func (s *Server) add(name string, lines ...string) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		s.t.Fatal(err)
	}
}

// Boot starts the server, and waits until it answers.
func (s *Server) Boot() {
	s.t.Helper()
	s.release()
	var log bytes.Buffer
	s.process, s.ended = s.command("postgres", "-D", s.dir), make(chan struct{})
	s.process.Stdout, s.process.Stderr = &log, &log
	// The thread that starts the process has to live as long as the process.
	s.process.SysProcAttr = withoutDeath(s.process.SysProcAttr)
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func(c *exec.Cmd, ended chan struct{}) {
		c.Wait()
		close(ended)
	}(s.process, s.ended)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if s.command("pg_isready", "-q", "-h", s.socket, "-U", "postgres").Run() == nil {
			return
		}
		select {
		case <-s.ended:
			s.t.Fatalf("the database has ended:\n%s", log.String())
		default:
		}
		if time.Now().After(limit) {
			s.t.Fatal("the database does not start")
		}
	}
}

func withoutDeath(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a != nil {
		a.Pdeathsig = 0
	}
	return a
}

// Signal sends a signal to the server and all its processes.
func (s *Server) Signal(signal syscall.Signal) {
	main := s.process.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", main, main))
	syscall.Kill(main, signal)
	for _, word := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(word); err == nil {
			syscall.Kill(pid, signal)
		}
	}
}

// Kill kills a running server, which gets no chance to write.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	select {
	case <-s.ended:
		return
	default:
	}
	s.Signal(syscall.SIGKILL)
	<-s.ended
	time.Sleep(100 * time.Millisecond) // its processes have to give up their shared memory
}

// Alive reports whether the server runs.
func (s *Server) Alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Remove ends the server and removes all its files.
func (s *Server) Remove() {
	s.Kill()
	s.release()
	os.RemoveAll(s.dir)
	os.RemoveAll(s.root)
}

// release frees the system's shared memory, which a kill leaves behind: the seventh line of the file has its key and
// number. A server that starts again takes other memory if its key, the number of its folder, is also the number of a
// folder on another disk.
func (s *Server) release() {
	data, err := os.ReadFile(filepath.Join(s.dir, "postmaster.pid"))
	lines := strings.Split(string(data), "\n")
	if err != nil || len(lines) < 7 {
		return
	}
	if words := strings.Fields(lines[6]); len(words) == 2 {
		if number, err := strconv.Atoi(words[1]); err == nil {
			unix.SysvShmCtl(number, unix.IPC_RMID, nil)
		}
	}
}

// Standby makes another server that follows this one, asynchronously, and starts it.
func (s *Server) Standby() *Server {
	s.t.Helper()
	return s.StandbyAt(Place{})
}

// StandbyAt is Standby for a server at a place.
func (s *Server) StandbyAt(p Place) *Server {
	s.t.Helper()
	other := placed(s.t, s.bin, p)
	from := s.socket
	if s.place.Host != "" {
		from = s.place.Host
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second / 5) {
		out, err := other.command("pg_basebackup", "-D", other.dir, "-h", from, "-U", "postgres", "-R", "-X", "stream", "-c", "fast",
			"--no-sync").CombinedOutput()
		if err == nil {
			break
		}
		// A new link has no route for a moment.
		if !strings.Contains(string(out), "route to host") || time.Now().After(end) {
			s.t.Fatalf("pg_basebackup: %v\n%s", err, out)
		}
	}
	other.settings("unix_socket_directories = '" + other.socket + "'")
	other.Boot()
	return other
}

// Promote makes a standby accept changes.
func (s *Server) Promote() {
	s.t.Helper()
	s.run("pg_ctl", "promote", "-w", "-D", s.dir)
}

// SQL runs statements as the owner of the server, and returns their output.
func (s *Server) SQL(database, statements string) string {
	s.t.Helper()
	out, err := s.command("psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", s.socket, "-U", "postgres", "-d", database, "-c",
		statements).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", statements, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Database makes a database, and returns its address.
func (s *Server) Database(name string) string {
	s.t.Helper()
	s.SQL("postgres", "CREATE DATABASE "+name)
	return URL(name, s)
}

// URL returns the address of a database that is on one of some servers.
func URL(database string, servers ...*Server) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.socket)
	}
	return "postgres://postgres@/" + database + "?" + url.Values{"host": {strings.Join(hosts, ",")}}.Encode()
}
