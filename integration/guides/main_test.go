//go:build hosts

// Package guides proves the ways in which people get the updater: the install
// script, images, media that are carried to hosts without a network, automation
// of their own, and every command that the README and docs/ print. All of it runs
// on real hosts against servers that the host knows by the names in the guides.
package guides

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
		flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
	os.Exit(host.Main(m, host.Updater(), host.Find(), host.Agent()))
}
