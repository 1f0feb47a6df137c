//go:build hosts

package fleet

import (
	"os"
	"testing"

	"teleport-update/integration/host"
)

func TestMain(m *testing.M) { os.Exit(host.Main(m, Programs()...)) }
