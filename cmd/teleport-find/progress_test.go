package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"teleport-update/find/store"
)

// awaited is a stream that closes a channel at the first text.
type awaited struct {
	text  strings.Builder
	once  sync.Once
	wrote chan struct{}
}

func (a *awaited) Write(p []byte) (int, error) {
	defer a.once.Do(func() { close(a.wrote) })
	return a.text.Write(p)
}

// The database does not answer until the command has said a word.
func TestACommandThatTakesLongSaysSo(t *testing.T) {
	path, file := filepath.Join(t.TempDir(), "store", "store.db"), filepath.Join(t.TempDir(), "backup.db")
	s, err := store.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Backup(t.Context(), path, file, nil); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"backup": "copying and checking the store … ", "restore": "checking and restoring the backup … "} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			database, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { database.Close() })
			address := "postgres://find@" + database.Addr().String() + "/find?sslmode=disable"
			problems := &awaited{wrote: make(chan struct{})}
			ended := make(chan int, 1)
			go func() {
				ended <- run([]string{"teleport-find", command, "--store", address, file}, new(strings.Builder), problems)
			}()
			select {
			case <-problems.wrote:
			case code := <-ended:
				t.Fatalf("it ended with %d and has said %q", code, problems.text.String())
			}
			database.Close()
			if <-ended; !strings.Contains(problems.text.String(), want) {
				t.Errorf("it has said %q", problems.text.String())
			}
		})
	}
}
