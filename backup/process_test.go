package backup

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"
)

// roles are what this program does as another process: see start.
var roles = map[string]func(args []string) error{
	// write DB: one row into each of two tables per transaction, as fast as it
	// goes; says the number of each one that is committed.
	"write": func(args []string) error {
		c, err := openWriter(args[0])
		if err != nil {
			return err
		}
		var n int
		if n, err = scalar(c, "SELECT coalesce(max(id), 0) FROM a"); err != nil {
			return err
		}
		for {
			n++
			if err := c.Exec(fmt.Sprintf("BEGIN IMMEDIATE; INSERT INTO a VALUES (%d, randomblob(300)); INSERT INTO b VALUES (%d, 0); COMMIT", n, n)); err != nil {
				return err
			}
			fmt.Println(n)
		}
	},
	// spill DB: a transaction so large that it overwrites the file before it is
	// committed, which it never is.
	"spill": func(args []string) error {
		c, err := openWriter(args[0])
		if err != nil {
			return err
		}
		if err := c.Exec("PRAGMA cache_size=10; BEGIN IMMEDIATE; UPDATE a SET data = randomblob(300); UPDATE b SET gen = 99"); err != nil {
			return err
		}
		fmt.Println(1)
		unix.Pause()
		runtime.KeepAlive(c)
		return nil
	},
	// migrate DB: makes it the third generation.
	"migrate": func(args []string) error {
		fmt.Println(1)
		c, err := openWriter(args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Exec("PRAGMA synchronous=off; UPDATE b SET gen = 3; PRAGMA user_version = 3")
	},
	// churn DB: opens, writes and closes all the time; says how often.
	"churn": func(args []string) error {
		for n := 1; ; n++ {
			c, err := openWriter(args[0])
			if err == nil {
				err = c.Exec("PRAGMA synchronous=off; UPDATE b SET gen = gen WHERE id = 1")
			}
			if err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
			fmt.Println(n)
		}
	},
	// hold DB: an idle connection.
	"hold": func(args []string) error {
		c, err := openWriter(args[0])
		if err != nil {
			return err
		}
		if _, err := scalar(c, "SELECT count(*) FROM a"); err != nil {
			return err
		}
		fmt.Println(1)
		unix.Pause()
		runtime.KeepAlive(c)
		return nil
	},
	// take SOURCE DIR VERSION
	"take": func(args []string) error {
		fmt.Println(1)
		return take(context.Background(), args[0], TakeRequest{Dir: args[1], Meta: metaOf(args[2])})
	},
	// restore DIR TARGET
	"restore": func(args []string) error {
		fmt.Println(1)
		return restore(context.Background(), args[1], args[0])
	},
	// second name DIR SECOND
	"second name": func(args []string) error { return GiveSecondName(args[0], args[1]) },
	// put back DATABASE KEPT
	"put back": func(args []string) error {
		return errAt(args[0], func(d *Database) error { return d.PutBack(args[1]) })
	},
}

func openWriter(path string) (*sqlite3.Conn, error) {
	c, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return nil, err
	}
	return c, c.BusyTimeout(20 * time.Second)
}

func scalar(c *sqlite3.Conn, query string) (int, error) {
	n, err := queryInt(c, query)
	return int(n), err
}

// A process is another process at work on a database.
type process struct {
	cmd  *exec.Cmd
	said bytes.Buffer // on stderr
	last atomic.Int64 // the number it said last
	done chan struct{}
}

// start returns when the process has said its first number.
func start(t *testing.T, role string, args ...string) *process {
	t.Helper()
	return startAs(t, os.Getuid(), role, args...)
}

// startAs starts the process as another user, who must be able to reach the
// folder that the first argument is in.
func startAs(t *testing.T, uid int, role string, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{done: make(chan struct{})}
	if uid == os.Getuid() {
		p.cmd = exec.Command(exe, args...)
	} else {
		// The test binary lies in a private folder.
		binary, err := os.ReadFile(exe)
		must(t, err)
		exe = filepath.Join(filepath.Dir(args[0]), "test")
		must(t, os.WriteFile(exe, binary, 0o755))
		p.cmd = exec.Command(exe, args...)
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	p.cmd.Env = append(os.Environ(), "BACKUP_TEST_ROLE="+role)
	p.cmd.Stderr = &p.said
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	first := make(chan struct{})
	go func() {
		defer close(p.done)
		said := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, _ := strconv.ParseInt(lines.Text(), 10, 64)
			p.last.Store(n)
			if !said {
				said = true
				close(first)
			}
		}
	}()
	select {
	case <-first:
	case <-p.done:
		p.kill()
		t.Fatalf("the %s process ended at once: %s", role, p.said.String())
	}
	return p
}

// kill is a kill -9, and waits for the end. A second one does nothing.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
	p.cmd.Wait()
}

// wait waits for the process to end by itself.
func (p *process) wait() error {
	<-p.done
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, p.said.String())
	}
	return nil
}
