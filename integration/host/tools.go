package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tools maps what is run to the Debian or Ubuntu package that has it.
var tools = []struct{ program, pkg string }{
	{"systemd-nspawn", "systemd-container"},
	{"mmdebstrap", "mmdebstrap"},
	{"nsenter", "util-linux"},
}

// Available says whether hosts can run here: nil, or what is missing.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("hosts need root")
	}
	if missing := missingTools(); len(missing) > 0 {
		return fmt.Errorf("hosts need programs that are not installed: apt-get install %s", strings.Join(missing, " "))
	}
	return nil
}

// EnsureTools installs what hosts need, with apt-get, where it is missing.
func EnsureTools(ctx context.Context) error {
	missing := missingTools()
	if len(missing) == 0 {
		return nil
	}
	// Ubuntu has no keys of Debian's by itself.
	return Install(ctx, append(missing, "debian-archive-keyring")...)
}

// Install installs packages of the distribution with apt-get.
func Install(ctx context.Context, packages ...string) error {
	// Two packages of tests may come here at once: one waits for the other.
	install := append([]string{"install", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends"}, packages...)
	for _, args := range [][]string{{"update"}, install} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, tail(string(out), 20))
		}
	}
	return nil
}

func missingTools() (missing []string) {
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			missing = append(missing, t.pkg)
		}
	}
	return missing
}
