package backup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestABackupUnderABusyWriterIsTheStateOfOneMoment(t *testing.T) {
	modes := []string{"wal", "delete", "truncate"}
	if testing.Short() {
		modes = modes[:1]
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			makeDB(t, h.db, "PRAGMA journal_mode="+mode, 60000, 1)
			if info, err := os.Stat(h.db); err != nil || info.Size() < 2*copyChunk {
				t.Fatal("the database is copied in one step")
			}
			p := start(t, "write", h.db)
			// A busy machine may let the writer wait for a whole round. That says
			// nothing; if none of them lets it write, the backup is in its way.
			for round, wrote := 0, 0; wrote < 3; round++ {
				committed := int(p.last.Load())
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				must(t, take(ctx, h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0")}))
				got := inspect(t, h.copied())
				if got.rows < committed {
					t.Errorf("round %d: the backup holds %d rows; %d were committed before it began", round, got.rows, committed)
				}
				if int(p.last.Load()) > committed {
					wrote++
				}
				if round == 20 {
					t.Fatal("the writer did not write")
				}
			}
			p.kill()
			if got := inspect(t, h.db); got.rows < int(p.last.Load()) {
				t.Errorf("the agent's database holds %d rows of %d", got.rows, p.last.Load())
			}
		})
	}
}

func TestABackupWorksBesideSQLiteInC(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("SKIPPED, nothing was tested: the sqlite3 shell is not installed")
	}
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			makeDB(t, h.db, "PRAGMA journal_mode="+mode, 5000, 1)
			cmd := exec.Command(shell, "-batch", h.db)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				fmt.Fprintln(in, ".timeout 20000\nPRAGMA synchronous=off;")
				for n := 5001; ; n++ {
					select {
					case <-stop:
						in.Close()
						return
					default:
						fmt.Fprintf(in, "BEGIN IMMEDIATE; INSERT INTO a VALUES (%d, randomblob(300)); INSERT INTO b VALUES (%d, 0); COMMIT;\n", n, n)
					}
				}
			}()
			for range 5 {
				h.take(t, "15.1.0")
				inspect(t, h.copied())
			}
			close(stop)
			<-stopped
			if err := cmd.Wait(); err != nil {
				t.Errorf("the writer failed: %v", err)
			}
			if _, err := os.Stat(h.db + "-wal"); err == nil {
				t.Error("a WAL was left behind by the last one to close")
			}
			inspect(t, h.db)
		})
	}
}

func TestAnAgentThatIsNotRootIsNeverHindered(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("another user's process needs root")
	}
	// SQLite makes files beside the database for whoever opens it, and takes
	// them away for the last one to close it. One made by root would keep this
	// one, which opens and closes all the time, from opening it again.
	const uid = 1234
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 100, 1)
	must(t, os.Chown(h.db, uid, uid))
	must(t, os.Chown(filepath.Dir(h.db), uid, uid))
	for dir := filepath.Dir(filepath.Dir(h.db)); dir != os.TempDir(); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	p := startAs(t, uid, "churn", h.db)
	for begin := time.Now(); time.Since(begin) < time.Second; {
		must(t, probe(t.Context(), h.db))
	}
	for range 10 {
		h.take(t, "15.1.0")
	}
	before := p.last.Load()
	for range 6000 {
		if time.Sleep(10 * time.Millisecond); p.last.Load() > before {
			return
		}
	}
	p.kill()
	t.Errorf("the agent stopped: %s", p.said.String())
}
