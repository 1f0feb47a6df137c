//go:build hosts

// Package integration proves the updater on real hosts: a booted systemd, the
// built programs, an agent that behaves as Teleport's does, and a find server
// that can be told to fail. Every test asserts on the host itself: links, unit
// state, what the main process executes, the journal, status.
package integration

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"teleport-update/integration/host"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Hosts wait far more than they compute: several share a processor, unless
	// -parallel says otherwise.
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
	}
	os.Exit(host.Main(m, host.Updater(), host.Find(), host.Agent()))
}
