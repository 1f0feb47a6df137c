//go:build hosts

package hostile

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/internal/console/consoletest"
)

// wordCases are words of others that come to a terminal by a whole program alone: those of
// an HTTP proxy, and the name of a process. Every case shows what it leaves on a terminal,
// see checkTerminal; these show the command itself there, too.
func wordCases() (cases []hostile) {
	words := consoletest.Words()
	for _, kind := range slices.Sorted(maps.Keys(words)) {
		word := words[kind]
		reason := strings.NewReplacer("\n", " ", "\r", " ").Replace(word[:min(len(word), 3000)])
		cases = append(cases, hostile{
			name: "an HTTP proxy refuses with words: " + kind, says: "the HTTP proxy http://127.0.0.1:…refused the connection",
			given: func(w *world) {
				w.behind(w.listen(func(conn net.Conn) {
					if connected(conn) {
						io.WriteString(conn, "HTTP/1.1 403 "+reason+"\r\nContent-Length: 0\r\n\r\n")
					}
				}))
			},
			check: func(w *world, _ result) { w.onTerminal("update", "--now") },
		}, hostile{
			name: "who has the database open is called: " + kind, says: "the transaction to version 1.0.0 is refused", run: []string{"rollback"}, waits: true,
			given: func(w *world) {
				w.run("update")
				w.uses(word)
			},
			check: func(w *world, r result) {
				if err := consoletest.Check(r.stdout+r.stderr, true); err != nil {
					w.t.Error(err)
				}
			},
		})
	}
	return cases
}

// onTerminal runs a command on a terminal, and asserts that it is sent printable text alone.
func (w *world) onTerminal(command ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	slave, shown := consoletest.Terminal(w.t, 120)
	cmd := w.shownOn(ctx, slave, command...)
	_ = cmd.Run() // its end is judged by the case
	if err := consoletest.Check(shown(), true); err != nil {
		w.t.Error(err)
	}
}

// uses has a process of a name have the agent's database open.
func (w *world) uses(name string) {
	name = strings.NewReplacer("/", "", "\x00", "").Replace(name)
	program := filepath.Join(w.t.TempDir(), name[:min(len(name), 100)])
	w.must(os.Symlink("/bin/sleep", program))
	database, err := os.OpenFile(w.database(), os.O_RDWR, 0)
	w.must(err)
	defer database.Close()
	cmd := exec.Command(program, "1000")
	cmd.ExtraFiles = []*os.File{database}
	w.must(cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// The kernel closes files on an exec, which is what Start waits for, before it gives the process its name.
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		if err == nil && strings.HasPrefix(name, strings.TrimSuffix(string(comm), "\n")) {
			return
		}
		if err != nil || time.Now().After(until) {
			w.t.Errorf("the process is called %q: %v", comm, err)
			return
		}
	}
}
