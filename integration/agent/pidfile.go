package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// writePIDFile replaces the file at path by one that holds this process's PID
// and is locked for as long as the process lives: "pkill -L -F" in the unit's
// ExecReload refuses a PID file that nobody locks. The old process's lock stays
// on the old file. The caller must keep the returned file.
func writePIDFile(path string) (_ *os.File, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp")
	if err != nil {
		return nil, fmt.Errorf("write PID file: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("write PID file: %w", err)
		}
	}()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, err
	}
	if err := f.Chmod(0o644); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f, "%d\n", os.Getpid()); err != nil {
		return nil, err
	}
	return f, os.Rename(f.Name(), path)
}
