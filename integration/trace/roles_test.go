package trace

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

// The programs that are traced are this test's own binary in one of these roles.
var roles = map[string]func() error{
	"steps": steps,
	"crowd": crowd,
	"spins": spins,
	"plain": plain,
	"chats": chats,
	"wakes": wakes,
}

const roleVariable = "TRACE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inRole is a command that runs a role in a folder.
func inRole(role, dir string) Command {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Command{Argv: []string{self}, Env: append(os.Environ(), roleVariable+"="+role), Dir: dir}
}

// steps changes one thing after the other.
func steps() error {
	f, err := os.OpenFile("a", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("content"); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return os.Chmod("a", 0o640) },
		func() error { return os.Rename("a", "b") },
		func() error { return os.Symlink("b", "c") },
		func() error { return os.Link("b", "d") },
		func() error { return os.Mkdir("e", 0o755) },
		func() error { return os.Truncate("d", 3) },
		func() error { return os.Remove("e") },
		func() error { return os.Remove("c") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// crowd changes things on four threads and in two children at once.
func crowd() error {
	var all sync.WaitGroup
	errs := make(chan error, 6)
	for n := range 4 {
		all.Go(func() {
			runtime.LockOSThread()
			name := fmt.Sprintf("thread%d", n)
			for range 10 {
				if err := os.WriteFile(name+".new", []byte("x"), 0o600); err != nil {
					errs <- err
				}
				if err := os.Rename(name+".new", name); err != nil {
					errs <- err
				}
			}
		})
	}
	for n := range 2 {
		all.Go(func() {
			script := fmt.Sprintf("for i in 1 2 3; do echo $i >child%d; done", n)
			if err := exec.Command("/bin/sh", "-c", script).Run(); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// spins keeps threads and a child busy for ever, and then makes a folder.
func spins() error {
	var threads sync.WaitGroup
	threads.Add(3)
	for range 3 {
		go func() {
			runtime.LockOSThread()
			threads.Done()
			for {
				os.Getppid()
			}
		}()
	}
	threads.Wait()
	if err := exec.Command("/bin/sh", "-c", "while :; do :; done").Start(); err != nil {
		return err
	}
	if err := os.Mkdir("now", 0o755); err != nil {
		return err
	}
	select {}
}

// plain does much that changes nothing.
func plain() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	if _, err := w.WriteString("through a pipe"); err != nil {
		return err
	}
	w.Close()
	if _, err := io.ReadAll(r); err != nil {
		return err
	}
	null, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := null.WriteString("into nothing"); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/comm", []byte("renamed"), 0); err != nil {
		return err
	}
	_, err = os.ReadDir(".")
	return err
}

// chats answers on stdout and stderr, and ends with a code of its own.
func chats() error {
	said, err := io.ReadAll(os.Stdin)
	fmt.Printf("heard %s", said)
	fmt.Fprintf(os.Stderr, "aside")
	if err == nil {
		os.Exit(7)
	}
	return err
}

// wakes has the runtime write on a thread that has the filter and nobody who traces it, as that
// of the tracer: it wakes a thread that polls.
func wakes() error {
	r, _, err := os.Pipe()
	if err != nil {
		return err
	}
	go func() { _, _ = r.Read(make([]byte, 1)) }() // so that a thread polls
	runtime.LockOSThread()
	if err := install(filter(known(false), false)); err != nil {
		return err
	}
	for n := range 100 {
		// Each ends before all the others, of which the thread that polls has to know.
		time.AfterFunc(time.Hour-time.Duration(n)*time.Second, func() {})
		time.Sleep(time.Millisecond)
	}
	print("still here")
	return nil
}
