// Package executable says why a program cannot be executed.
package executable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"teleport-update/internal/regular"
	"teleport-update/internal/space"
)

// mostInterpreters is how many scripts the kernel follows from interpreter to interpreter (execve(2)).
const mostInterpreters = 4

// firstLine is how many bytes of a script the kernel reads for its interpreter.
const firstLine = 256

// Why returns the reason why a program cannot be executed; err means that it is not known. The interpreter of a script has to be
// executable, too.
func Why(path string) (why, err error) {
	why, err = whyFile(path)
	program := path
	for n := 0; why == nil && err == nil && n < mostInterpreters; n++ {
		interpreter := Interpreter(program)
		if interpreter == "" {
			return nil, nil
		}
		program = interpreter
		if why, err = whyFile(program); why != nil {
			why = fmt.Errorf("%s cannot be executed by its interpreter %q: %w", path, program, why)
		}
	}
	return why, err
}

// Interpreter returns the program that executes a script, from the script's first line ("#!/bin/sh"). It is empty if the file is no
// script or cannot be read, and if the interpreter's path is relative.
func Interpreter(path string) string {
	f, _, err := regular.Open(path, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, err := io.ReadAll(io.LimitReader(f, firstLine))
	rest, isScript := bytes.CutPrefix(line, []byte("#!"))
	if err != nil || !isScript {
		return ""
	}
	rest, _, _ = bytes.Cut(rest, []byte("\n"))
	rest = bytes.TrimLeft(rest, " \t")
	if end := bytes.IndexAny(rest, " \t\x00"); end >= 0 { // a carriage return is part of the name
		rest = rest[:end]
	}
	if !filepath.IsAbs(string(rest)) {
		return ""
	}
	return string(rest)
}

// whyFile is Why, but does not read the file.
func whyFile(path string) (why, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing", path), nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path), nil
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s may not be executed (mode %v): `chmod 755 %s`", path, info.Mode().Perm(), path), nil
	}
	if noexec, err := space.NoExec(path); err != nil {
		return nil, err
	} else if noexec {
		return fmt.Errorf("%s cannot be executed because its file system is mounted noexec: "+
			"`mount -o remount,bind,exec \"$(findmnt -no TARGET -T %[1]s)\"` until the next boot, "+
			"and remove noexec from fstab or the mount unit", path), nil
	}
	if err := unix.Access(path, unix.X_OK); errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s may not be executed: %w", path, err), nil
	} else if err != nil {
		return nil, &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil, nil
}
