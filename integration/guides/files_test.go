//go:build hosts

package guides

import (
	"os"
	"path/filepath"
	"testing"
)

// module is the repository's folder: tests run in their package's.
var module = filepath.Join("..", "..")

// file reads one of the repository.
func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module, name))
	check(t, err)
	return string(data)
}

func installScript(t *testing.T) string { return file(t, "packaging/installscript/install.sh") }
