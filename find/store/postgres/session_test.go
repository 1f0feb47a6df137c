package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres/pgtest"
)

// commitsUntil makes a change while f does something every few milliseconds, and returns the change's error.
func commitsUntil(t *testing.T, s *Store, key string, f func()) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(context.WithoutCancel(t.Context()), key, []byte("1"), store.None)
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Millisecond):
			f()
		}
	}
}

const (
	cancelWaits = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
	unfollowed  = "synchronous_standby_names = 'nobody'"
)

// Somebody cancels the wait of a commit for its standby: COMMIT succeeds with a warning. The change is not acknowledged
// before the standby has it, or none is wanted any more.
func TestACommitWhoseWaitForTheStandbyIsCancelled(t *testing.T) {
	server := pgtest.Start(t)
	address := server.Database("find")
	s := opened(t, address)
	server.Configure(unfollowed)
	cancelled := 0
	err := commitsUntil(t, s, "lost", func() {
		if n := server.SQL("postgres", cancelWaits); n != "0" {
			cancelled++
		}
	})
	if _, unknown := errors.AsType[*store.UnknownError](err); !unknown || !strings.Contains(err.Error(), "not yet its standby") {
		t.Errorf("after %d cancelled waits the change ends with %v", cancelled, err)
	}
	if cancelled < 2 {
		t.Errorf("%d waits were cancelled: the change is not looked for with a wait", cancelled)
	}
	if item, err := s.Get(t.Context(), "lost"); err != nil || string(item.Value) != "1" {
		t.Errorf("the primary has %q, %v", item.Value, err)
	}
	// The standby comes, or is not wanted any more, after the first wait was cancelled.
	cancelled = 0
	err = commitsUntil(t, s, "kept", func() {
		if cancelled == 0 && server.SQL("postgres", cancelWaits) != "0" {
			cancelled++
			server.Configure("synchronous_standby_names = ''")
		}
	})
	if err != nil || cancelled == 0 {
		t.Errorf("a change that the standby has after all ends with %v, after %d cancelled waits", err, cancelled)
	}
	put(t, s, "after", "1", store.None)
}

// A server says at its start that acknowledged changes may be lost, wherever that is set.
func TestAnAsynchronousCommitIsWarnedOf(t *testing.T) {
	server := pgtest.Start(t)
	address := server.Database("find")
	for what, tc := range map[string]struct {
		before, after string
		want          bool
	}{
		"the default":        {"", "", false},
		"the role":           {"ALTER ROLE postgres SET synchronous_commit = off", "ALTER ROLE postgres RESET synchronous_commit", true},
		"the database":       {"ALTER DATABASE find SET synchronous_commit = off", "ALTER DATABASE find RESET synchronous_commit", true},
		"a standby's memory": {"ALTER ROLE postgres SET synchronous_commit = remote_write", "ALTER ROLE postgres RESET synchronous_commit", false},
	} {
		if tc.before != "" {
			server.SQL("postgres", tc.before)
		}
		s := opened(t, address)
		if tc.after != "" {
			server.SQL("postgres", tc.after)
		}
		if got := s.Warning(); (got != "") != tc.want || tc.want && !strings.Contains(got, "synchronous_commit") {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// A database whose transactions are read-only by a setting can be opened and read: it is the primary.
func TestAPrimaryThatIsReadOnlyByASettingIsRead(t *testing.T) {
	server := pgtest.Start(t)
	address := server.Database("find")
	put(t, opened(t, address), "a", "1", store.None)
	server.SQL("postgres", "ALTER DATABASE find SET default_transaction_read_only = on")
	s := opened(t, address+"&target_session_attrs=read-write")
	if item, err := s.Get(t.Context(), "a"); err != nil || string(item.Value) != "1" {
		t.Errorf("%q, %v", item.Value, err)
	}
	_, err := s.Put(t.Context(), "b", nil, store.None)
	sentence(t, err, "read-only by a setting", "default_transaction_read_only")
}
