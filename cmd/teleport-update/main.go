// Command teleport-update keeps this host's Teleport agent on the version that
// its cluster wants.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/console"
	"teleport-update/internal/failure"
	"teleport-update/internal/successor"
)

// releaseVersion is set by the build: -ldflags "-X main.releaseVersion=1.2.3".
var releaseVersion = "0.0.0-dev"

// Exit codes, part of the contract with scripts.
const (
	exitFailed      = 1 // the host is on the version it had
	exitUsage       = 2
	exitNeedsPerson = 4
)

func main() {
	// A transaction may outlive the terminal or the pipe it was started from.
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	// Lines that packages print past our log are of no use to an operator, and may quote text that a server sent.
	log.SetOutput(io.Discard)
	// This program sets the modes of files, and not its caller's umask.
	syscall.Umask(0o022)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	os.Args = hideSecrets(os.Args)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settleLimit bounds the work after a command is through.
const settleLimit = time.Minute

// usageError marks a wrong command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{args: args, stdout: console.To(stdout), stderr: console.To(stderr), predecessor: successor.Current()}
	a.dropped = dropUnusable(args)
	err := a.commands().RunContext(ctx, args)
	if a.settle != nil && !a.readOnly {
		// However the command ended, the state of the host has to be published.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
		fault := a.settle(late, err == nil)
		cancel()
		if err == nil {
			err = fault
		}
	}
	if a.readOnly || isDecision(err) {
		a.predecessor.Decide()
	}
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*transaction.ExitError](err); ok {
		return exit.Code // it explained itself
	}
	if failure.Is[usageError](err) {
		fmt.Fprintf(a.stderr, "%s: %s; see `%s --help`\n", appName, console.Line(asTyped(err.Error(), args)), appName)
		return exitUsage
	}
	if busy, ok := errors.AsType[*state.BusyError](err); ok && transaction.Scheduled() {
		a.log.Info("another updater is at work; the next run looks again", "holder", busy.Holder)
		return 0
	}
	a.fail(err)
	if failure.Is[*failure.NeedsPersonError](err) {
		return exitNeedsPerson
	}
	return exitFailed
}

// isDecision reports whether the program meant to end so. Any other end may be due to a fault of its own, and an older updater may do
// better.
func isDecision(err error) bool {
	refused := failure.Is[usageError](err) || failure.Is[*failure.NeedsPersonError](err) || failure.Is[*failure.RefusedError](err)
	ended := failure.Is[*transaction.ExitError](err) || failure.Is[*state.BusyError](err)
	return err == nil || refused || ended
}

const appName = "teleport-update"

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// asTyped names a flag as it was typed: package flag does not distinguish -p from --p.
func asTyped(text string, args []string) string {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "--") && strings.HasSuffix(text, " --"+name[1:]) {
			return strings.TrimSuffix(text, "-"+name) + name
		}
	}
	return text
}

// bare returns a command that takes no arguments. Its help, as in "enable help", is another command.
func bare(c *cli.Command) *cli.Command {
	action := c.Action
	c.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return usagef("%s takes no argument, found %q", c.Command.Name, c.Args().First())
		}
		return action(c)
	}
	return c
}
