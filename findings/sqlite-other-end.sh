#!/bin/sh
# github.com/ncruces/go-sqlite3 0.35.6: Backup and Restore wait for a lock on this connection's database only. They open the database at the
# other end with the defaults of its name, so a busy timeout of the connection does not reach it: while another process writes there,
# a restore ends at once with "database is locked". A busy timeout in the name of the other end makes it wait.
# Source: the documentation of Conn.Backup and Conn.Restore names no timeout; the code opens the name that is given.
# It matters here because a restore that gives up over somebody's short lock would leave an agent stopped: a restore reads a private copy of
# the backup, which nobody locks.
set -eu

version=v0.35.6
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
trap 'exit 2' INT TERM
command -v go >/dev/null || { echo "go is needed"; exit 2; }
cd "$dir"
cat >go.mod <<'GO'
module finding

go 1.25.0
GO
cat >main.go <<'GO'
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ncruces/go-sqlite3"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
}

func open(name string) *sqlite3.Conn {
	c, err := sqlite3.Open(name)
	must(err)
	return c
}

// held has a connection hold the exclusive lock of its database for a second, while f works.
func held(c *sqlite3.Conn, f func() error) error {
	must(c.Exec("BEGIN EXCLUSIVE"))
	ended := make(chan error)
	go func() {
		time.Sleep(time.Second)
		ended <- c.Exec("COMMIT")
	}()
	err := f()
	must(<-ended)
	return err
}

func main() {
	const wait = "?_pragma=busy_timeout(10000)"
	writer := open("file:a.db")
	must(writer.Exec("CREATE TABLE t(x); INSERT INTO t VALUES(1)"))
	patient := open("file:b.db" + wait)
	plain := held(writer, func() error { return patient.Restore("main", "file:a.db") })
	named := held(writer, func() error { return patient.Restore("main", "file:a.db"+wait) })
	must(patient.Exec("SELECT x FROM t"))
	backup := held(writer, func() error { return patient.Backup("main", "file:a.db") })
	fmt.Printf("a connection that waits 10 s, and a lock of 1 s at the other end\n")
	fmt.Printf("Restore from a name:                   %v\n", plain)
	fmt.Printf("Restore from a name with the timeout:  %v\n", named)
	fmt.Printf("Backup to a name:                      %v\n", backup)
	if !errors.Is(plain, sqlite3.BUSY) || named != nil || !errors.Is(backup, sqlite3.BUSY) {
		fmt.Println("CHANGED")
		os.Exit(1)
	}
}
GO
go get "github.com/ncruces/go-sqlite3@$version" >/dev/null 2>&1 || { echo "go-sqlite3 $version cannot be had"; exit 2; }
go mod tidy >/dev/null 2>&1 || { echo "the modules cannot be had"; exit 2; }
echo "go-sqlite3 $version"
CGO_ENABLED=0 go build -o finding . && ./finding
