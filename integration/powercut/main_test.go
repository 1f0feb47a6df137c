//go:build hosts

package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/integration/host"
	"teleport-update/integration/powercut"
)

// full runs whole campaigns; else a representative part of each runs.
var full = os.Getenv("FAULTS") == "all"

var (
	scratch     string // a tmpfs that only this process sees
	updater     string // the built program
	unavailable error
)

func TestMain(m *testing.M) {
	if unavailable = powercut.OwnMounts(); unavailable == nil {
		scratch, unavailable = powercut.Scratch()
	}
	if unavailable == nil {
		unavailable = hideSystemd()
	}
	path, err := host.Build(context.Background(), host.Updater())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	updater = path
	os.Exit(m.Run())
}

// hideSystemd keeps the machine's own systemd out of sight of the updater.
func hideSystemd() error {
	err := unix.Mount("tmpfs", "/run/systemd", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// require skips the test, loudly, where nothing can be cut; with CI=true it fails.
func require(t *testing.T, also ...error) {
	t.Helper()
	err := unavailable
	if err == nil {
		err = powercut.Available(powercut.Ext4, powercut.XFS)
	}
	if missing, ok := errors.AsType[*powercut.MissingError](err); ok {
		err = host.Install(t.Context(), missing.Packages...)
	}
	powercut.Require(t, errors.Join(append(also, err)...))
}
