package figure

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Measured is the origin of what is measured now, in this module, by a command.
func Measured(by string) Origin {
	o := Origin{By: by, Commit: "unknown", Date: time.Now().UTC().Format(time.DateOnly)}
	if out, err := exec.Command("git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty").Output(); err == nil {
		o.Commit = strings.TrimSpace(string(out))
	}
	return o
}

// Machine names this machine, as far as it matters to a figure.
func Machine() string {
	return fmt.Sprintf("%s, %d cores (%s)", runtime.Version(), runtime.NumCPU(), processor())
}

func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, model, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}
