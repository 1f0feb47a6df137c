package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

func TestALockThatIsHeldNamesItsHolderWhenPatienceEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "update.lock")
	unlock, err := Lock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, patience := range []time.Duration{0, 150 * time.Millisecond} {
		_, err := Lock(t.Context(), path, patience)
		if busy, ok := errors.AsType[*BusyError](err); !ok || !strings.Contains(busy.Holder, fmt.Sprintf("process %d", os.Getpid())) {
			t.Errorf("with patience %v: %v; want a busy error that names this process", patience, err)
		}
	}
	var told []string
	for _, patience := range []time.Duration{0, time.Millisecond} {
		LockNotify(t.Context(), path, patience, func(holder string) { told = append(told, holder) })
	}
	if len(told) != 1 || !strings.Contains(told[0], fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("who waits is told of %q; want one word of this process, and none without patience", told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(ctx, path, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
	unlock()
	unlock, err = Lock(t.Context(), path, 0)
	if err != nil {
		t.Fatalf("a lock that was given back cannot be taken: %v", err)
	}
	unlock()
}

func TestAPipeInPlaceOfTheLockHoldsNobodyUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "update.lock")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if holder := readHolder(path); holder != "unknown" {
		t.Errorf("the holder is %q", holder)
	}
}

// Who holds a lock may not have written down yet that it does.
func TestAProcessThatIsGoneIsNotNamedAsTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "update.lock")
	l := flock.New(path)
	if ok, err := l.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	const none = 4194305 // above all PIDs
	if err := os.WriteFile(path, fmt.Appendf(nil, "process %d: teleport-update update, since 2026-01-01T00:00:00Z\n", none), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Lock(t.Context(), path, 0)
	if busy, ok := errors.AsType[*BusyError](err); !ok || busy.Holder != "unknown" {
		t.Errorf("%v; want an unknown holder", err)
	}
}

func TestALockWhoseFileWentAwayMeanwhileIsTakenAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "versions")
	path := filepath.Join(dir, "update.lock")
	synctest.Test(t, func(t *testing.T) {
		uninstall, err := Lock(t.Context(), path, 0)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() {
			_, err := Lock(t.Context(), path, time.Minute)
			waited <- err
		}()
		synctest.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		uninstall()
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		_, err = Lock(t.Context(), path, 0)
		if _, busy := errors.AsType[*BusyError](err); !busy {
			t.Errorf("a third one: %v; want a busy error", err)
		}
	})
}

func TestALockedFileThatLostItsNameIsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "update.lock")
	l := flock.New(path)
	if ok, err := l.TryLock(); !ok || err != nil || !isStillThere(l) {
		t.Fatalf("locked %v, %v", ok, err)
	}
	defer l.Unlock()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if isStillThere(l) {
		t.Error("it is still a lock after the file was removed")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if isStillThere(l) {
		t.Error("it is still a lock after another file took the name")
	}
}

func TestTheHolderIsNamedByItsCommand(t *testing.T) {
	for line, want := range map[string]string{
		"teleport-update update --now":                                   "update",
		"teleport-update --data-dir /x --debug --log-format=text switch": "switch",
		"teleport-update --debug":                                        "",
	} {
		if got := verb(strings.Fields(line)); got != want {
			t.Errorf("%s: %q; want %q", line, got, want)
		}
	}
}

func TestALockHasOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "update.lock")
	for _, before := range []string{"", "process 1: x\n", strings.Repeat("process 1: of a longer line\n", 9)} {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		unlock, err := Lock(t.Context(), path, 0)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), fmt.Sprintf("process %d: ", os.Getpid())) || strings.Index(string(text), "\n") != len(text)-1 {
			t.Errorf("after %q the lock has %q, %v", before, text, err)
		}
	}
}

// Who follows the advice keeps the agent's data where the agent reaches them.
func TestAFolderOfTheAgentsUserIsNotToBeTakenFromIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to another user")
	}
	for name, tc := range map[string]struct {
		owner   int
		mode    os.FileMode
		enabled bool
		want    string
	}{
		"the agent's user's":                        {1234, 0o755, false, "a data folder of its own"},
		"the agent's user's, with an updater in it": {1234, 0o755, true, "`chown root: "},
		"root's, and open to all":                   {0, 0o777, true, "make it writable by root only"},
		"root's, and root's alone":                  {0, 0o700, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			for _, err := range []error{os.Mkdir(dir, 0o700), os.Chown(dir, tc.owner, tc.owner), os.Chmod(dir, tc.mode)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			store := filepath.Join(dir, "versions")
			if tc.enabled {
				if err := errors.Join(os.Mkdir(store, 0o755), os.WriteFile(filepath.Join(store, "updates.yaml"), nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			err := prepareStore(store)
			if err != nil && strings.Contains(err.Error(), "`mv ") == tc.enabled {
				t.Errorf("it is to be moved: %v", err)
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("it ends with %v; want %q", err, tc.want)
			}
		})
	}
}

// An agent with User= and its data in the data folder cannot give the folder away: the refusal has a way by
// which it keeps its data. Where only the mode is wrong, root's own folder stays where it is.
func TestAFolderOfTheAgentsUserHasAWayOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("for any other user there is nobody to give a folder to")
	}
	for name, tc := range map[string]struct {
		spoil       func(data string) error
		says, never string
	}{
		"it is the agent's":              {func(data string) error { return os.Chown(data, 1234, 1234) }, "mv %[1]s %[1]s-agent`, set data_dir to %[1]s-agent", "writable by root only"},
		"it has a mode that is too wide": {func(data string) error { return os.Chmod(data, 0o777) }, "make it writable by root only", "-agent"},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "teleport")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := tc.spoil(data); err != nil {
				t.Fatal(err)
			}
			err := prepareStore(filepath.Join(data, "versions"))
			says := tc.says
			if strings.Contains(says, "%") {
				says = fmt.Sprintf(says, data)
			}
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), tc.never) {
				t.Errorf("got %v; want an error with %q, and without %q", err, says, tc.never)
			}
			if _, err := os.Lstat(filepath.Join(data, "versions")); err == nil {
				t.Error("a folder was made in it")
			}
		})
	}
}
