package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
)

// take SOURCE DIR backs a database up.
func take(args []string) error {
	return measure(func() error {
		d, err := backup.Open(args[0])
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.Take(context.Background(), backup.TakeRequest{
			Dir:  args[1],
			Meta: backup.Meta{Proxy: "tenant.example.com", Version: "15.1.0", Edition: "oss", Created: time.Now()},
		})
		return err
	})
}

// restore DIR TARGET puts a backup over a database.
func restore(args []string) error {
	return measure(func() error {
		d, err := backup.Open(args[1])
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Restore(context.Background(), args[0])
	})
}

// A result is what was measured of a child.
type result struct {
	Seconds   float64 // wall
	CPU       float64 `json:"-"` // seconds, user and system
	MemoryMiB float64 // VmHWM: the most that was in memory at once
}

func measure(work func() error) error {
	begin := time.Now()
	if err := work(); err != nil {
		return err
	}
	r := result{Seconds: time.Since(begin).Seconds()}
	kib, err := highWater(os.Getpid())
	if err != nil {
		return err
	}
	r.MemoryMiB = float64(kib) / 1024
	return json.NewEncoder(os.Stdout).Encode(r)
}

// childResult runs a child and returns what it measured of itself.
func childResult(args ...string) (result, error) {
	var r result
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%q: %w", args, err)
	}
	r.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return r, json.Unmarshal(out, &r)
}

const rowsPerSecond = 1000

// write DATABASE commits rows at a steady pace until its input ends, then tells how many
// milliseconds a commit took at most. The first line says that it has begun.
func write(args []string) error {
	c, err := sqlite3.OpenFlags(args[0], sqlite3.OPEN_READWRITE)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.BusyTimeout(time.Minute); err != nil {
		return err
	}
	insert, _, err := c.Prepare("INSERT INTO events (type, created, kv_key, kv_value) VALUES ('put', 0, 'key', randomblob(400))")
	if err != nil {
		return err
	}
	defer insert.Close()
	end := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(end)
	}()
	var longest time.Duration
	fmt.Println("begun")
	for tick := time.Tick(time.Second / rowsPerSecond); ; {
		select {
		case <-end:
			fmt.Println(float64(longest.Microseconds()) / 1000)
			return nil
		case <-tick:
			begin := time.Now()
			if err := insert.Exec(); err != nil {
				return err
			}
			longest = max(longest, time.Since(begin))
		}
	}
}

// waitsDuring tells the longest wait, in milliseconds, of a writer in another
// process while work is done.
func waitsDuring(db string, work func() error) (float64, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(exe, "write", db)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return 0, fmt.Errorf("the writer did not begin: %w", cmd.Wait())
	}
	workErr := work()
	in.Close()
	longest := 0.0
	if lines.Scan() {
		longest, err = strconv.ParseFloat(lines.Text(), 64)
	}
	if e := cmd.Wait(); err == nil {
		err = e
	}
	if workErr != nil {
		err = workErr
	}
	return longest, err
}

// makeDatabase makes one with tables and indexes as the agent's has, in WAL
// mode.
func makeDatabase(path string, size int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	c, err := sqlite3.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Exec(`PRAGMA journal_mode=off; PRAGMA synchronous=off;
		CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, modified INTEGER NOT NULL, expires DATETIME, value BLOB,
			revision TEXT NOT NULL DEFAULT '');
		CREATE TABLE events (id INTEGER PRIMARY KEY, type TEXT NOT NULL, created DATETIME NOT NULL, kv_key TEXT NOT NULL, kv_value BLOB);
		CREATE INDEX kv_expires ON kv (expires);
		CREATE INDEX events_created ON events (created)`); err != nil {
		return err
	}
	for from := int64(0); ; from += 10000 {
		if err := c.Exec(fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO kv SELECT printf('/nodes/%%010d', i), i, i, randomblob(800 + abs(random()) %% 500), hex(randomblob(16)) FROM n`,
			from+1, from+10000)); err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() >= size {
			return c.Exec("PRAGMA journal_mode=wal")
		}
	}
}
