//go:build hosts

package hostile

import (
	"context"
	"os"
	"os/exec"
	"time"

	"teleport-update/internal/console/consoletest"
)

// checkTerminal asserts that somebody who looks at the host, as the case has left it, is sent printable
// text alone.
func (w *world) checkTerminal(limit time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	slave, shown := consoletest.Terminal(w.t, 200)
	for _, command := range [][]string{{"status", "--offline"}, {"history"}} {
		_ = w.shownOn(ctx, slave, command...).Run() // the case has judged what status says
	}
	if err := consoletest.Check(shown(), true); err != nil {
		w.t.Error(err)
	}
}

// shownOn is a command whose user looks at a terminal.
func (w *world) shownOn(ctx context.Context, terminal *os.File, command ...string) *exec.Cmd {
	args := append([]string{"--data-dir", w.data(), "--link-dir", w.links(), "--unit-dir", w.units(), "--agent-config", w.agentConfig()}, command...)
	cmd := exec.CommandContext(ctx, fixture.updater, args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + w.dir, "TERM=dumb"}, w.env...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = terminal, terminal, "/"
	return cmd
}
