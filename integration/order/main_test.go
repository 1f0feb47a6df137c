//go:build hosts

package order

import (
	"fmt"
	"os"
	"testing"

	"teleport-update/integration/host"
)

func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) == "" {
		os.Exit(outside())
	}
	if err := inside(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(host.Main(m, host.Updater()))
}
