package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"teleport-update/tools/internal/figure"
)

// database is one that is backed up, and where.
type database struct {
	dir    string
	source string
	rounds int
	table  *table
}

// backup measures database backups against the sqlite3 shell, on the same
// database and in the same run: time, memory, and how long a process that writes
// to the database meanwhile is kept waiting. It takes three times the database's
// size on disk.
func (b *bench) backup() error {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		b.table.skip("database backups", fmt.Errorf("the sqlite3 shell is needed: apt-get install sqlite3"))
		return nil
	}
	d := database{dir: filepath.Join(b.work, "backup"), rounds: b.rounds, table: b.table}
	d.source = filepath.Join(d.dir, "proc", "sqlite.db")
	b.table.Notes = append(b.table.Notes, fmt.Sprintf("A database of %d MB.", b.size>>20))
	if err := makeDatabase(d.source, b.size); err != nil {
		return err
	}
	for _, part := range []func() error{d.time, d.restore, d.writer} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (d database) backupDir() string { return filepath.Join(d.dir, "versions", "15.1.0", "backup") }
func (d database) shellCopy() string { return filepath.Join(d.dir, "shell.db") }

// time compares whole backups of a database that nobody writes to.
func (d database) time() error {
	var ours, shell, oursCPU, shellCPU []time.Duration
	var memory []float64
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for round := range d.rounds {
		r, err := d.ours()
		if err != nil {
			return err
		}
		s, err := d.shell()
		if err != nil {
			return err
		}
		memory = append(memory, r.MemoryMiB)
		ours, oursCPU = append(ours, seconds(r.Seconds)), append(oursCPU, seconds(r.CPU))
		shell, shellCPU = append(shell, seconds(s.Seconds)), append(shellCPU, seconds(s.CPU))
		fmt.Fprintf(os.Stderr, "round %d: ours %.2f s, shell %.2f s\n", round+1, r.Seconds, s.Seconds)
	}
	d.table.ratio("backup, checked and synced / sqlite3's .backup, quick_check and sync", figure.Median(ours), goalBackup,
		bound{took: figure.Median(shell)})
	d.table.ratio("the same: processor", figure.Median(oursCPU), none, bound{took: figure.Median(shellCPU)})
	d.table.value("backup: peak memory of the whole process", slices.Max(memory), "MiB", goalBackupMem)
	return nil
}

// ours takes a backup in a process of its own, so that its memory is told.
func (d database) ours() (result, error) {
	if err := d.clear(); err != nil {
		return result{}, err
	}
	return childResult("take", d.source, d.backupDir())
}

// shell does the same with the sqlite3 shell.
func (d database) shell() (result, error) {
	var r result
	if err := d.clear(); err != nil {
		return r, err
	}
	begin := time.Now()
	for _, argv := range [][]string{
		{"sqlite3", d.source, ".timeout 10000", ".backup " + d.shellCopy()},
		{"sqlite3", d.shellCopy(), "PRAGMA quick_check"},
		{"sync", d.shellCopy(), d.dir},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return r, fmt.Errorf("%q: %w: %s", argv, err, out)
		}
		r.CPU += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, nil
}

// clear removes the copies and lets the disk come to rest.
func (d database) clear() error {
	if err := os.RemoveAll(d.backupDir()); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		os.Remove(d.shellCopy() + suffix)
	}
	return exec.Command("sync", "-f", d.dir).Run()
}

// restore tells what a restore over a database of the same size takes.
func (d database) restore() error {
	if _, err := d.ours(); err != nil {
		return err
	}
	var seconds, memory []float64
	for range d.rounds {
		r, err := childResult("restore", d.backupDir(), d.source)
		if err != nil {
			return err
		}
		seconds = append(seconds, r.Seconds)
		memory = append(memory, r.MemoryMiB)
	}
	d.table.value("restore over a database in WAL mode, checked and synced", figure.Median(seconds), "s", none)
	d.table.value("restore: peak memory of the whole process", slices.Max(memory), "MiB", none)
	return nil
}

// writer compares how long a commit of another process takes at most while a
// backup is made.
//
// The shell's .backup as it is does not end under a writer: each write of another
// process makes it start again, so it is watched for as long as ours takes. Inside
// a read transaction it ends, and does what ours does.
func (d database) writer() error {
	var window time.Duration
	rows := []*waits{
		{name: "during ours", work: func() error {
			begin := time.Now()
			_, err := childResult("take", d.source, d.backupDir())
			window = time.Since(begin)
			return err
		}},
		{name: "during the shell's .backup in a read transaction", work: func() error {
			return exec.Command("sqlite3", d.source, "BEGIN", "SELECT count(*) FROM sqlite_schema", ".backup "+d.shellCopy()).Run()
		}},
		{name: "during the shell's .backup as it is, which does not end", work: func() error { return d.shellFor(window) }},
		{name: "during nothing", work: func() error { time.Sleep(window); return nil }},
	}
	for range d.rounds {
		for _, row := range rows {
			if err := d.clear(); err != nil {
				return err
			}
			wait, err := waitsDuring(d.source, row.work)
			if err != nil {
				return err
			}
			row.longest = append(row.longest, wait)
		}
	}
	wait := func(r *waits) time.Duration {
		return time.Duration(figure.Median(r.longest) * float64(time.Millisecond))
	}
	d.table.ratio(
		fmt.Sprintf("longest wait of a writer in WAL mode, %d rows a second: during ours / during the shell's .backup in a read transaction",
			rowsPerSecond),
		wait(rows[0]), goalWriter, bound{took: wait(rows[1])})
	for _, row := range rows {
		d.table.value(fmt.Sprintf("the same %s (worst %.1f ms)", row.name, slices.Max(row.longest)), figure.Median(row.longest), "ms", none)
	}
	return nil
}

// waits are the longest waits of a writer while something is done.
type waits struct {
	name    string
	work    func() error
	longest []float64 // ms, one a round
}

// shellFor runs the shell's .backup and ends it after a while.
func (d database) shellFor(limit time.Duration) error {
	cmd := exec.Command("sqlite3", d.source, ".timeout 10000", ".backup "+d.shellCopy())
	if err := cmd.Start(); err != nil {
		return err
	}
	time.Sleep(limit)
	cmd.Process.Kill()
	cmd.Wait()
	return nil
}
