//go:build hosts

package database

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// drillRounds says how often a host goes to a new version and back: in each run of the
// tests, in a whole campaign of faults, or as often as the variable DRILL_ROUNDS says.
func drillRounds() int {
	if n, err := strconv.Atoi(os.Getenv("DRILL_ROUNDS")); err == nil {
		return n
	}
	if os.Getenv("FAULTS") == "all" {
		return 100
	}
	return 20
}

// drill counts what came of it.
type drill struct {
	*scene
	backups, bytes int64
	rows           int64 // committed, in all lives of all versions
	base           int64 // the last row of 1.0.0 that was counted
	slowest        time.Duration
	transactions   int
}

// A host whose agent writes a thousand rows a second goes to a new version,
// which migrates the database, and back, again and again: by hand, because its
// cluster says so, because the version crashes. Each backup is checked by
// SQLite's own shell; each row that was committed before a backup is there after
// the return.
func TestTheDrill(t *testing.T) {
	rounds := drillRounds()
	d := &drill{scene: newScene(t)}
	d.Sound("1.0.0")
	d.Writes("wal", 1000)
	// A short window on purpose: what is drilled is the database. It is honoured.
	d.RunsOn("1.0.0", "--health-window", "500ms")
	d.Grows(1000)
	begun := time.Now()
	for i := range rounds {
		v := fmt.Sprintf("1.%d.0", i+1)
		crashes := i%5 == 4
		spec := release.Spec{Version: v, Schema: 2 + i%3}
		if crashes {
			spec.Variant, spec.CrashAfter = stamp.CrashLoops, 200*time.Millisecond
		}
		d.Release(spec)
		d.Wants(v)
		committed := d.LastRow()
		if crashes {
			d.timed(1, updater, "update", "--now")
		} else {
			d.timed(0, updater, "update", "--now")
			d.forward(v, int64(spec.Schema), committed)
			stopped := d.Seen().PID
			if i%5 == 3 {
				d.Wants("1.0.0")
				d.timed(0, updater, "update")
			} else {
				d.timed(0, updater, "rollback")
			}
			d.left(v, int64(spec.Schema), stopped)
		}
		d.back(committed, i%10 == 9 || i == rounds-1)
		if t.Failed() {
			t.Fatalf("in round %d of %d, with version %s", i+1, rounds, v)
		}
	}
	d.Whole("the database in the end", d.Live(), 1)
	took := time.Since(begun)
	t.Logf("%d rounds, %d transactions, %d backups of %d MB in all, each sound; %d rows committed, %.0f a second; %.1f s in all, %.1f s a transaction, the slowest %.1f s",
		rounds, d.transactions, d.backups, d.bytes>>20, d.rows, float64(d.rows)/took.Seconds(), took.Seconds(), took.Seconds()/float64(d.transactions), d.slowest.Seconds())
}

// timed runs one transaction.
func (d *drill) timed(code int, args ...string) {
	d.T.Helper()
	r := d.Try(args...)
	if r.Code != code {
		d.T.Fatalf("%q: exit code %d, want %d\n%s%s", args, r.Code, code, r.Stdout, r.Stderr)
	}
	d.transactions++
	d.slowest = max(d.slowest, r.Took)
}

// forward checks an update: what the old version had is backed up, and went
// along.
func (d *drill) forward(v string, schema, committed int64) {
	d.T.Helper()
	d.executing(v)
	saved := d.backup("1.0.0", 1)
	if saved.Last < committed {
		d.T.Errorf("row %d was committed before the update, the backup ends at %d", committed, saved.Last)
	}
	live := d.Live()
	d.Whole("version "+v, live, schema)
	if live.Last < saved.Last {
		d.T.Errorf("version %s has %v; the backup has %v", v, live, saved)
	}
}

// left checks what a version left that was stopped: all of it, to the row.
func (d *drill) left(v string, schema int64, stopped string) {
	d.T.Helper()
	saved, said := d.backup(v, schema), d.SaidLast(stopped)
	if saved.Last != said {
		d.T.Errorf("version %s committed row %d, and row %d is the last that it left", v, said, saved.Last)
	}
	d.rows += saved.ByVersion[v]
}

// back checks a return: the old version has all rows that were committed before
// the backup, and goes on writing. To the letter is looked at only sometimes: it
// takes longer with each round.
func (d *drill) back(committed int64, letter bool) {
	d.T.Helper()
	d.executing("1.0.0")
	saved := d.backup("1.0.0", 1)
	if saved.Last < committed {
		d.T.Errorf("row %d was committed before the update, the backup ends at %d", committed, saved.Last)
	}
	d.Grows(saved.Last)
	live := d.Live()
	d.Whole("version 1.0.0", live, 1)
	if live.Last <= saved.Last || live.ByVersion["1.0.0"] != live.Rows {
		d.T.Errorf("version 1.0.0 has %v; the backup has %v", live, saved)
	}
	if letter {
		d.SameRows("1.0.0", saved.Last)
	}
	d.rows += live.Last - d.base
	d.base = live.Last
}

// backup checks one backup.
func (d *drill) backup(v string, schema int64) scenes.Content {
	d.T.Helper()
	saved := d.Saved(v)
	d.Whole("the backup of "+v, saved, schema)
	info, err := d.Lstat(store + "/" + v + "/backup/sqlite.db")
	if err != nil {
		d.T.Fatal(err)
	}
	d.backups++
	d.bytes += info.Size()
	return saved
}

// executing waits: an agent that was started anew may not have written its PID file
// when such a short window is over.
func (d *drill) executing(v string) {
	d.T.Helper()
	want := programs + "/" + v + "/bin/teleport"
	host.Wait(d.T, patience, func() error {
		if got := strings.TrimSpace(d.Try("sh", "-c", "readlink /proc/$(cat /run/teleport.pid)/exe").Stdout); got != want {
			return fmt.Errorf("the agent executes %q; want %q", got, want)
		}
		return nil
	})
}
