//go:build hosts

package health

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/host"
)

// The tests of a package that need a host of their own are a program that runs
// inside one.
func roomOnAHost(t *testing.T, name string) *host.Test {
	return testsOnAHost(t, name, host.Options{}, "Host")
}

// testsOnAHost runs the tests of a package whose names match a pattern.
func testsOnAHost(t *testing.T, name string, o host.Options, pattern string, env ...string) *host.Test {
	t.Helper()
	program := filepath.Join(t.TempDir(), name+".test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "hosts", "-o", program, "teleport-update/"+name)
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests: %v\n%s", err, out)
	}
	h := host.ForTest(t, o)
	h.Put(program, "/root/room.test")
	r, err := h.RunCommand(t.Context(), host.Command{
		Args: []string{"/root/room.test", "-test.run", pattern, "-test.parallel", "8", "-test.timeout", "10m"},
		Env:  append(env, "DISPOSABLE_HOST=1"),
	})
	if err != nil || r.Code != 0 {
		failed := regexp.MustCompile(`(?m)^ *--- FAIL.*(\n +\w+\.go:.*)*`).FindAllString(r.Stdout, -1)
		t.Fatalf("exit code %d, %v\n%s\n%s%s", r.Code, err, strings.Join(failed, "\n"), r.Stdout, r.Stderr)
	}
	return h
}

func TestTheSystemdRoomOnAHost(t *testing.T) {
	t.Parallel()
	roomOnAHost(t, "systemd")
}

// systemd 252 and 257 have other settings.
func TestEverySettingInACanary(t *testing.T) {
	if os.Getenv("FAULTS") != "all" {
		t.Skip("this is for the night: `make test-nightly` runs it")
	}
	for _, suite := range []string{host.DefaultSuite, "trixie"} {
		testsOnAHost(t, "systemd", host.Options{Suite: suite}, "HostCanarySweep", "CANARY_SWEEP=1")
	}
}

func TestTheHealthRoomOnAHost(t *testing.T) {
	t.Parallel()
	h := roomOnAHost(t, "health")
	// The last one stops the host.
	stop := h.Background(host.Command{
		Args: []string{"/root/room.test", "-test.run", "Shutdown", "-test.v", "-test.timeout", "5m"},
		Env:  []string{"DISPOSABLE_HOST=stop"},
	})
	select {
	case <-stop.Done():
	case <-time.After(6 * time.Minute):
		t.Error("the test of a shutdown does not end")
	}
	if out, errs := stop.Output(); !strings.Contains(out, "--- PASS: TestShutdown") {
		t.Errorf("the test of a shutdown:\n%s%s", out, errs)
	}
}
