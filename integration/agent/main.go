// Command teleport is a stand-in for Teleport's agent in tests and in the demo.
//
// Towards an updater it behaves as the real one does: it prints its version,
// runs from a link under a PID file, keeps its state in SQLite with a schema
// that newer releases migrate, answers /readyz, and on SIGHUP starts a new
// process from that link, hands over to it and leaves. Which version it is, and
// in which way it is broken, is stamped on the binary (package stamp).
//
//	teleport version
//	teleport start [--config FILE] [--pid-file FILE] [--data-dir DIR] [--diag-addr ADDR]
//	teleport report [--data-dir DIR]
//
// "report" is not Teleport's: it prints what the database holds as JSON.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"teleport-update/integration/agent/stamp"
)

func main() {
	self, err := stamp.Self()
	if err != nil {
		fail(fmt.Errorf("read the stamp of this program: %w", err))
	}
	if self.Variant == stamp.Unrunnable {
		fail(errors.New("this release cannot run"))
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)).With("version", self.Version, "pid", os.Getpid()))
	if len(os.Args) < 2 {
		usage()
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "version":
		fmt.Println(banner(self))
	case "start":
		err = start(self, args)
	case "report":
		err = report(args)
	default:
		usage()
	}
	if err != nil {
		fail(err)
	}
}

// banner is the line that the real program prints, with an invented commit.
func banner(self stamp.Stamp) string {
	name := "Teleport"
	if self.Edition.Enterprise() {
		name = "Teleport Enterprise"
	}
	goVersion := runtime.Version()
	if self.Edition.FIPS() {
		goVersion += " X:boringcrypto"
	}
	return fmt.Sprintf("%s v%s git:v%s-0-gabc1234 %s", name, self.Version, self.Version, goVersion)
}

func start(self stamp.Stamp, args []string) error {
	flags := flag.NewFlagSet("teleport start", flag.ContinueOnError)
	var given options
	flags.StringVar(&given.config, "config", "", "configuration `FILE` (default "+defaultConfig+", if it exists)")
	flags.StringVar(&given.pidFile, "pid-file", "", "`FILE` to write the PID to")
	flags.StringVar(&given.dataDir, "data-dir", "", "`DIR` for the agent's state")
	flags.StringVar(&given.diagAddr, "diag-addr", "", "`ADDR` for /readyz, /healthz and /version")
	flags.StringVar(&given.config, "c", "", "short for -config")
	for _, name := range []string{"roles", "r"} {
		flags.String(name, "", "`ROLES`, which change nothing here")
	}
	fips := flags.Bool("fips", false, "only FIPS cryptography")
	if err := flags.Parse(apart(args)); err != nil {
		return err
	}
	if *fips && !self.Edition.FIPS() {
		return errors.New("this is not a FIPS build: it cannot be started with --fips")
	}
	config, err := readConfig(given)
	if err != nil {
		return err
	}
	return serve(self, config, given.pidFile)
}

// apart reads the short flag with its value in one word, as in -c/etc/teleport.yaml, which the real agent takes.
func apart(args []string) (all []string) {
	for _, arg := range args {
		if path, ok := strings.CutPrefix(arg, "-c/"); ok {
			arg = "-c=/" + path
		}
		all = append(all, arg)
	}
	return all
}

func report(args []string) error {
	flags := flag.NewFlagSet("teleport report", flag.ContinueOnError)
	dataDir := flags.String("data-dir", defaultDataDir, "`DIR` of the agent's state")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := readReport(*dataDir)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: teleport version | start [flags] | report [flags]")
	os.Exit(2)
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "ERROR: %v\n", err)
	os.Exit(1)
}
