// Command endat runs a program and ends it at one of the calls by which it
// changes something, counted over all of its threads and children:
//
//	endat [-at N | -before NAME] [-exit] [-cut DIR] [-messages A,B] [-do MOMENT=SCRIPT]... [-kill] PROGRAM [ARG]...
//
// With -at, the program is killed at its N-th such call: before it is made, or
// with -exit after it; with -before, before the first one that is about a file of
// that name. With -cut, the file system that DIR is on is stopped first, as a power
// cut stops it. Without any of these, every call is listed.
//
// It is static and needs nothing, so it can be copied into a host. On standard
// output it prints one JSON object, an Ending; the program's own output follows
// on standard error.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"teleport-update/integration/trace"
)

// Ending is how the run ended.
type Ending struct {
	Calls    int      `json:"calls"`
	Killed   bool     `json:"killed"`
	At       string   `json:"at,omitempty"` // the call that it was killed at
	ExitCode int      `json:"exit_code"`
	List     []string `json:"list,omitempty"`
	Held     []string `json:"held,omitempty"` // the moments at which it was held
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "endat:", err)
		os.Exit(1)
	}
}

func run() error {
	at := flag.Int("at", 0, "the `NUMBER` of the call, from 1")
	before := flag.String("before", "", "the first call about a path with this `NAME` in it")
	exit := flag.Bool("exit", false, "after the call, not before it")
	cut := flag.String("cut", "", "stop the file system of this `FOLDER`")
	messages := flag.String("messages", "", "`WORDS`, with commas between, that make a write to a socket count")
	var holds holds
	flag.Var(&holds, "do", "`MOMENT=SCRIPT`: what is run at which moment, one after the other")
	last := flag.Bool("kill", false, "kill the program after the last script")
	flag.Parse()
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	c := trace.Command{Argv: flag.Args(), Stdin: stdin}
	if *messages != "" {
		c.Messages = strings.Split(*messages, ",")
	}
	kill := trace.Kill()
	if *cut != "" {
		dir, err := os.Open(*cut)
		if err != nil {
			return err
		}
		kill = trace.KillAfter(func() error { return stop(dir) })
	}
	var ending Ending
	result, err := trace.Run(context.Background(), c, func(call trace.Call) trace.Action {
		if moment, err := holds.at(call); err != nil {
			return trace.KillAfter(func() error { return err })
		} else if moment != "" {
			ending.Held = append(ending.Held, moment)
			if *last && len(holds) == 0 {
				ending.At = call.String()
				return kill
			}
		}
		if *at == 0 && len(ending.Held) == 0 && !call.Exit {
			ending.List = append(ending.List, call.String())
		}
		if call.Index == *at && call.Exit == *exit || *before != "" && strings.Contains(call.Path, *before) {
			ending.At = call.String()
			return kill
		}
		return trace.GoOn()
	})
	if err != nil {
		return err
	}
	ending.Calls, ending.Killed, ending.ExitCode = result.Calls, result.Killed, result.ExitCode
	os.Stderr.Write(result.Stdout)
	os.Stderr.Write(result.Stderr)
	return json.NewEncoder(os.Stdout).Encode(ending)
}

// stop ends a file system without a flush of its log.
func stop(dir *os.File) error {
	const shutdown, noLogFlush = 0x8004587d, 2
	how := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return errno
	}
	return nil
}
