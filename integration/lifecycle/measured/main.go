// Command measured runs a program in its own place and notes what the program cost.
//
//	measured FILE PROGRAM ARGUMENT…
//
// It adds one line to FILE: the CPU time of the program and of the programs that it ran, in microseconds, and the largest
// memory that one of them had in KiB. It is small, because a child's memory is at least what its parent had at the fork.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	if err := measure(os.Args[1], os.Args[2], os.Args[2:]); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func measure(file, program string, argv []string) error {
	child, err := os.StartProcess(program, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	state, err := child.Wait()
	if err != nil {
		return err
	}
	if !state.Success() {
		return fmt.Errorf("%s: %s", program, state)
	}
	usage := state.SysUsage().(*syscall.Rusage)
	into, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer into.Close()
	cpu := (usage.Utime.Nano() + usage.Stime.Nano()) / 1000
	_, err = fmt.Fprintln(into, cpu, usage.Maxrss)
	return err
}
