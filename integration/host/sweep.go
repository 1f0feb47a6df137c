package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Each host's folder holds a file that its process keeps locked, so a folder
// whose file can be locked belongs to a process that is dead. A lock on the
// folder of all hosts keeps a new host from being swept before it is claimed.

func hostsDir() (string, error) {
	module, err := Module()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(module, "build", "hosts")
	return dir, os.MkdirAll(dir, 0o755)
}

// claim creates the folder of a new host.
func claim(hosts, dir string) (release func(), err error) {
	unlock, err := lock(filepath.Join(hosts, ".lock"), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return lock(filepath.Join(dir, ".lock"), unix.LOCK_EX|unix.LOCK_NB)
}

// Sweep removes the hosts of processes that died without removing them.
func Sweep() error {
	hosts, err := hostsDir()
	if err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(hosts, ".lock"), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(hosts)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "tu-") {
			continue
		}
		dir := filepath.Join(hosts, e.Name())
		f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			// Its host is just being closed; or its process died before it had
			// begun, and it is empty.
			os.Remove(dir)
			continue
		}
		var release func()
		if err == nil {
			release, err = lockFile(f, unix.LOCK_EX|unix.LOCK_NB)
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, remove(dir))
		release()
	}
	return errors.Join(errs...)
}
