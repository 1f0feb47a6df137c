package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Toolchain returns the name of the Go toolchain in a module's go.mod, such as
// go1.27.3. Programs in packages are built with it whatever GOTOOLCHAIN says, since its
// library is part of them.
func Toolchain(module string) (string, error) {
	path := filepath.Join(module, "go.mod")
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "toolchain "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", fmt.Errorf("%s has no line that begins with toolchain", path)
}
