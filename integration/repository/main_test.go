//go:build !hosts

package repository

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		fmt.Println("skipped: packages of each format are built, signed and published for each test")
		return
	}
	os.Exit(cleaned(m.Run))
}
