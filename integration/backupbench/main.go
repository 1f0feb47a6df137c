// Command backupbench measures database backups against the sqlite3 shell, on
// the same database and in the same run: time, memory, and how long a process
// that writes to the database meanwhile is kept waiting.
//
//	go run ./integration/backupbench [-size MB] [-rounds N] [-dir DIR]
//
// It needs the sqlite3 shell (apt-get install sqlite3) and three times the
// database's size on disk. The runs are interleaved and medians are told,
// because a disk has moods.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	var err error
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		err = children[os.Args[1]](os.Args[2:])
	} else {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "backupbench:", err)
		os.Exit(1)
	}
}

// The goals.
const (
	maxRatio  = 1.3 // wall time, ours to the shell's
	maxMemory = 32  // MiB
)

func run() error {
	size := flag.Int64("size", 1000, "size of the database in MB")
	rounds := flag.Int("rounds", 5, "how often each is measured")
	parent := flag.String("dir", "", "where to work (default: the system's folder for temporary files)")
	flag.Parse()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		return errors.New("the sqlite3 shell is needed: apt-get install sqlite3")
	}
	dir, err := os.MkdirTemp(*parent, "backupbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := bench{
		dir:    dir,
		source: filepath.Join(dir, "proc", "sqlite.db"),
		rounds: *rounds,
	}
	fmt.Printf("making a database of %d MB …\n", *size)
	if err := makeDatabase(b.source, *size<<20); err != nil {
		return err
	}
	if err := b.time(); err != nil {
		return err
	}
	if err := b.restore(); err != nil {
		return err
	}
	return b.writer()
}

type bench struct {
	dir    string
	source string
	rounds int
}

func (b bench) backupDir() string { return filepath.Join(b.dir, "versions", "15.1.0", "backup") }
func (b bench) shellCopy() string { return filepath.Join(b.dir, "shell.db") }

// time compares whole backups of a database that nobody writes to.
func (b bench) time() error {
	var ours, shell, ratios, memory, oursCPU, shellCPU []float64
	for round := range b.rounds {
		r, err := b.ours()
		if err != nil {
			return err
		}
		ours = append(ours, r.Seconds)
		memory = append(memory, r.MemoryMiB)
		oursCPU = append(oursCPU, r.CPU)
		s, err := b.shell()
		if err != nil {
			return err
		}
		shell = append(shell, s.Seconds)
		shellCPU = append(shellCPU, s.CPU)
		ratios = append(ratios, r.Seconds/s.Seconds)
		fmt.Printf("round %d: ours %.2f s, shell %.2f s\n", round+1, r.Seconds, s.Seconds)
	}
	ratio, most := median(ours)/median(shell), slices.Max(memory)
	fmt.Printf("\n| backup, checked and synced | seconds (median of %d) | processor |\n| --- | --- | --- |\n", b.rounds)
	fmt.Printf("| ours | %.2f | %.2f |\n", median(ours), median(oursCPU))
	fmt.Printf("| sqlite3 .backup; quick_check; sync | %.2f | %.2f |\n", median(shell), median(shellCPU))
	fmt.Printf("| **ratio** (at most %.1f) | **%.2f** (%.2f to %.2f) | %.2f |\n",
		maxRatio, ratio, slices.Min(ratios), slices.Max(ratios), median(oursCPU)/median(shellCPU))
	fmt.Printf("| peak memory of ours, whole process (at most %d MiB) | %.1f MiB | |\n\n", maxMemory, most)
	if ratio > maxRatio || most > maxMemory {
		return errors.New("a goal is missed")
	}
	return nil
}

// ours takes a backup in a process of its own, so that its memory is told.
func (b bench) ours() (result, error) {
	if err := b.clear(); err != nil {
		return result{}, err
	}
	return child("take", b.source, b.backupDir())
}

// shell does the same with the sqlite3 shell.
func (b bench) shell() (result, error) {
	var r result
	if err := b.clear(); err != nil {
		return r, err
	}
	begin := time.Now()
	for _, argv := range [][]string{
		{"sqlite3", b.source, ".timeout 10000", ".backup " + b.shellCopy()},
		{"sqlite3", b.shellCopy(), "PRAGMA quick_check"},
		{"sync", b.shellCopy(), b.dir},
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
func (b bench) clear() error {
	if err := os.RemoveAll(b.backupDir()); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		os.Remove(b.shellCopy() + suffix)
	}
	return exec.Command("sync", "-f", b.dir).Run()
}

// restore tells what a restore over a database of the same size takes.
func (b bench) restore() error {
	if _, err := b.ours(); err != nil {
		return err
	}
	var seconds, memory []float64
	for range b.rounds {
		r, err := child("restore", b.backupDir(), b.source)
		if err != nil {
			return err
		}
		seconds = append(seconds, r.Seconds)
		memory = append(memory, r.MemoryMiB)
	}
	fmt.Printf("| restore over a database in WAL mode, checked and synced | |\n| --- | --- |\n")
	fmt.Printf("| seconds (median of %d) | %.2f |\n| peak memory | %.1f MiB |\n\n", b.rounds, median(seconds), slices.Max(memory))
	return nil
}

// writer compares how long a commit of another process takes at most while a
// backup is made.
//
// The shell's .backup as it is does not end under a writer: each write of another
// process makes it start again, so it is watched for as long as ours takes. Inside
// a read transaction it ends, and does what ours does.
func (b bench) writer() error {
	var window time.Duration
	rows := []*waits{
		{name: "during ours", work: func() error {
			begin := time.Now()
			_, err := child("take", b.source, b.backupDir())
			window = time.Since(begin)
			return err
		}},
		{name: "during the shell's .backup in a read transaction", work: func() error {
			return exec.Command("sqlite3", b.source, "BEGIN", "SELECT count(*) FROM sqlite_schema", ".backup "+b.shellCopy()).Run()
		}},
		{name: "during the shell's .backup as it is, which does not end", work: func() error { return b.shellFor(window) }},
		{name: "during nothing", work: func() error { time.Sleep(window); return nil }},
	}
	for range b.rounds {
		for _, row := range rows {
			if err := b.clear(); err != nil {
				return err
			}
			wait, err := waitsDuring(b.source, row.work)
			if err != nil {
				return err
			}
			row.longest = append(row.longest, wait)
		}
	}
	fmt.Printf("| longest wait of a writer in WAL mode, %d rows a second, ms | median of %d | worst |\n| --- | --- | --- |\n", rowsPerSecond, b.rounds)
	for _, row := range rows {
		fmt.Printf("| %s | %.1f | %.1f |\n", row.name, median(row.longest), slices.Max(row.longest))
	}
	if median(rows[0].longest) > median(rows[1].longest) {
		return errors.New("a goal is missed: a writer waits longer than during the shell's .backup")
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
func (b bench) shellFor(limit time.Duration) error {
	cmd := exec.Command("sqlite3", b.source, ".timeout 10000", ".backup "+b.shellCopy())
	if err := cmd.Start(); err != nil {
		return err
	}
	time.Sleep(limit)
	cmd.Process.Kill()
	cmd.Wait()
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
