package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/integration/powercut"
)

// The test binary is also the other processes of these tests: STORE_TEST_ROLE
// says which one it is, its arguments are the store and a number.
func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv("STORE_TEST_ROLE")]
	if !ok {
		noPowerCuts = powercut.OwnMounts()
		os.Exit(m.Run())
	}
	if err := role(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// noPowerCuts is why the test that cuts power is skipped.
var noPowerCuts error

var roles = map[string]func(path, number string) error{
	// count adds one to the counter so many times.
	"count": func(path, number string) error {
		times, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		s, err := OpenSQLite(context.Background(), path)
		if err != nil {
			return err
		}
		defer s.Close()
		return count(context.Background(), s, times)
	},
	// write changes one key after the other until it is killed, and says each
	// change that was acknowledged.
	"write": func(path, _ string) error {
		ctx := context.Background()
		s, err := OpenSQLite(ctx, path)
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			key := "written/" + strconv.Itoa(i%7)
			item, err := s.Get(ctx, key)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			// Long enough for several pages of the log.
			revision, err := s.Put(ctx, key, []byte(key+strings.Repeat(" x", 5000)), item.Revision)
			if err != nil {
				return err
			}
			fmt.Println(key, revision)
		}
	},
}

const counter = "counter"

// count adds one to the counter so many times, as often as others are in the way.
func count(ctx context.Context, s Store, times int) error {
	for range times {
		for {
			item, err := s.Get(ctx, counter)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			n, _ := strconv.Atoi(string(item.Value))
			_, err = s.Put(ctx, counter, []byte(strconv.Itoa(n+1)), item.Revision)
			if _, ok := errors.AsType[*ConflictError](err); ok {
				continue
			}
			// On a slow disk others may be in the way for longer than the store
			// waits. What is refused is not lost.
			if errors.Is(err, sqlite3.BUSY) {
				continue
			}
			if err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// process prepares this binary in one of its roles.
func process(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "STORE_TEST_ROLE="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// newPath is where a store may be made.
func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "store", "store.db") }

func openStore(t *testing.T, path string) *SQLite {
	t.Helper()
	s, err := OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s Store, key, value string, based Revision) Revision {
	t.Helper()
	revision, err := s.Put(t.Context(), key, []byte(value), based)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}
