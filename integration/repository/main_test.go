//go:build !hosts

package repository

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(cleaned(m.Run)) }
