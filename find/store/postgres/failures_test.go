package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres/pgtest"
)

func opened(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, key, value string, based store.Revision) store.Revision {
	t.Helper()
	at, err := s.Put(t.Context(), key, []byte(value), based)
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return at
}

// The standby that is promoted lacks what the primary has acknowledged last.
func TestAFailoverThatLosesChangesIsSaid(t *testing.T) {
	primary := pgtest.Start(t)
	opened(t, primary.Database("find")).Close()
	standby := primary.Standby()
	s := opened(t, pgtest.URL("find", primary, standby))
	kept := put(t, s, "kept", "1", store.None)
	for limit := time.Now().Add(20 * time.Second); standby.SQL("find", "SELECT count(*) FROM teleport_find.resources") != "1"; {
		if time.Now().After(limit) {
			t.Fatal("the standby does not follow")
		}
		time.Sleep(20 * time.Millisecond)
	}
	before, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	standby.Kill()
	lost := put(t, s, "lost", "1", store.None)
	primary.Kill()
	standby.Boot()
	standby.Promote()
	if _, err := s.Get(t.Context(), "lost"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("the standby has what it lacks: %v", err)
	}
	after, err := s.Identity(t.Context())
	if err != nil || after.ID != before.ID || after.Epoch == before.Epoch {
		t.Errorf("before it was %+v, and after %+v: %v", before, after, err)
	}
	_, err = s.Commit(t.Context(), store.Change{Of: before, Writes: []store.Write{{Key: "kept", Value: []byte("x"), Based: kept}}})
	if !errors.Is(err, store.ErrReplaced) {
		t.Errorf("a change for the store of before: %v", err)
	}
	at := put(t, s, "kept", "2", kept)
	if at <= lost+store.EpochStep/2 {
		t.Errorf("after the failover there is revision %d; %d may be known for something else", at, lost)
	}
	if _, _, err := s.Changes(t.Context(), "", lost, 10); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("who has seen what was lost reads on: %v", err)
	}
	records, err := s.History(t.Context(), 10)
	if err != nil || len(records) != 1 || !strings.Contains(records[0].What, "failed over") {
		t.Errorf("the history has %+v: %v", records, err)
	}
	if next := put(t, s, "kept", "3", at); next != at+1 {
		t.Errorf("revision %d follows %d: the next change has begun an epoch, too", next, at)
	}
}

// Two standbys of one primary are promoted one after the other, the second of which lacks what the first was given: no
// revision stands for two changes.
func TestPromotionsThatDivergeHaveEpochsOfTheirOwn(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	based := put(t, s, "kept", "1", store.None)
	seen := make(map[store.Revision]bool)
	for range 5 {
		// What a standby has that was promoted: the primary's head, of another timeline.
		server.SQL("find", fmt.Sprintf(`UPDATE teleport_find.head SET revision = %[1]d, timeline = 0;
			UPDATE teleport_find.resources SET revision = %[1]d; DELETE FROM teleport_find.history`, based))
		at := put(t, s, "kept", "2", based)
		records, err := s.History(t.Context(), 10)
		if err != nil || len(records) != 1 || records[0].From != based || records[0].To/store.EpochStep != at/store.EpochStep {
			t.Errorf("after revision %d and then %d, the history has %+v: %v", based, at, records, err)
		}
		seen[at/store.EpochStep] = true
	}
	if len(seen) < 2 || seen[0] {
		t.Errorf("the epochs are %v", seen)
	}
}

func TestACommitThatIsCutOffIsThereOrNot(t *testing.T) {
	server := pgtest.Start(t)
	address := server.Database("find")
	s := opened(t, address)
	var acknowledged, unknown atomic.Int64
	put(t, s, "count", "", store.None)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				item, err := s.Get(ctx, "count")
				if err != nil {
					continue
				}
				_, err = s.Put(ctx, "count", append(item.Value, 'x'), item.Revision)
				_, maybe := errors.AsType[*store.UnknownError](err)
				switch {
				case err == nil:
					acknowledged.Add(1)
				case maybe || ctx.Err() != nil:
					unknown.Add(1)
				}
			}
		})
	}
	for range 3 {
		time.Sleep(time.Duration(200+rand.IntN(300)) * time.Millisecond)
		server.Kill()
		server.Boot()
	}
	time.Sleep(300 * time.Millisecond)
	stop()
	writers.Wait()
	item, err := s.Get(t.Context(), "count")
	if err != nil {
		t.Fatal(err)
	}
	there, least := int64(len(item.Value)), acknowledged.Load()
	if there < least || there > least+unknown.Load() || least == 0 {
		t.Errorf("%d changes were acknowledged and of %d it is not known; %d are there", least, unknown.Load(), there)
	}
	if unknown.Load() > 4 {
		t.Errorf("of %d changes it was not known what became of them, but a database that comes back can say it", unknown.Load())
	}
}

// A server that is paused amid a change, with the lock that all others need.
func TestAServerThatIsPausedAmidAChangeHoldsOthersUpForSecondsOnly(t *testing.T) {
	server := pgtest.Start(t)
	address := server.Database("find")
	paused, other := opened(t, address), opened(t, address)
	at := put(t, other, "a", "1", store.None)
	holds, goOn := make(chan bool), make(chan bool)
	result := make(chan error)
	go func() {
		first := true
		result <- paused.change(t.Context(), func(ctx context.Context, tx pgx.Tx, h head) (*pgx.Batch, error) {
			if first {
				first = false
				close(holds)
				<-goOn
			}
			p, err := planned(ctx, tx, store.Change{Writes: []store.Write{{Key: "a", Value: []byte("old"), Based: at}}}, h.revision)
			if err != nil {
				return nil, err
			}
			return p.batch(store.Change{}, h), nil
		})
	}()
	<-holds
	began := time.Now()
	put(t, other, "a", "2", at)
	if took := time.Since(began); took > idleLimit+3*time.Second {
		t.Errorf("the other server was held up for %s", took)
	}
	close(goOn)
	if _, conflict := errors.AsType[*store.ConflictError](<-result); !conflict {
		t.Error("the change of the server that was paused was made on top of one that it has not seen")
	}
}

// The deadline is by the database's clock, and is checked at the commit.
func TestAPauseBetweenTheCountAndTheCommitMakesAChangeLate(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	deadline := now.Add(500 * time.Millisecond)
	err = s.change(t.Context(), func(ctx context.Context, tx pgx.Tx, h head) (*pgx.Batch, error) {
		change := store.Change{Writes: []store.Write{{Key: "a", Value: []byte("1")}}, Deadline: deadline}
		p, err := planned(ctx, tx, change, h.revision)
		if err != nil {
			return nil, err
		}
		time.Sleep(time.Second)
		return p.batch(change, h), nil
	})
	if !errors.Is(err, store.ErrLate) {
		t.Errorf("got %v; want %v", err, store.ErrLate)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a change that came late: %v", err)
	}
}

func TestADatabaseThatDoesNotAnswerEndsAnOperation(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	put(t, s, "a", "1", store.None)
	server.Signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := s.Get(ctx, "a"); err == nil {
		t.Error("a database that was stopped has answered")
	}
	server.Signal(syscall.SIGCONT)
	if _, err := s.Get(t.Context(), "a"); err != nil {
		t.Errorf("after it goes on: %v", err)
	}
}

func TestWhoListensHearsOfChanges(t *testing.T) {
	server := pgtest.Start(t)
	address := server.Database("find")
	s, other := opened(t, address), opened(t, address)
	heard := make(chan bool, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		s.Listen(ctx, func() { heard <- true })
		close(ended)
	}()
	limit := time.After(20 * time.Second)
	for n := 0; ; n++ {
		put(t, other, fmt.Sprint("k", n), "1", store.None)
		select {
		case <-heard:
			stop()
			<-ended
			return
		case <-limit:
			t.Fatal("nothing was heard")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestSerializationFailuresAreTriedAgain(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	for _, code := range []string{"40001", "40P01"} {
		tries := 0
		err := s.do(t.Context(), operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
			if tries++; tries < 4 {
				_, err := c.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '"+code+"'; END $$")
				return err
			}
			return nil
		})
		if err != nil || tries != 4 {
			t.Errorf("%s: %d tries, %v", code, tries, err)
		}
		tries = 0
		err = s.do(t.Context(), operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
			tries++
			_, err := c.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '"+code+"'; END $$")
			return err
		})
		if err == nil || tries != maxAttempts {
			t.Errorf("%s for ever: %d tries, %v; want %d", code, tries, err, maxAttempts)
		}
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ address, want string }{
		"a password":              {"postgres://u:sesame@localhost/find", "--store-password-file"},
		"a password, elsewhere":   {"postgres://u@localhost/find?password=sesame", "--store-password-file"},
		"no TLS":                  {"postgres://u@db.example.com/find?sslmode=disable", "would not be verified"},
		"TLS of anybody":          {"postgres://u@db.example.com/find?sslmode=require", "would not be verified"},
		"TLS of any host":         {"postgres://u@db.example.com/find?sslmode=verify-ca", "would not be verified"},
		"no TLS as a last resort": {"postgres://u@db.example.com/find?sslmode=prefer", "would not be verified"},
		"one of two":              {"postgres://u@localhost,db.example.com/find?sslmode=disable", "db.example.com"},
		"no address":              {"postgres://u@local\x7fhost:sesame/find", "the address is none"},
	} {
		_, err := Open(t.Context(), Options{URL: c.address})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	for _, address := range []string{"postgres://u@db.example.com/find", "postgres://u@127.0.0.1/find?sslmode=disable", "postgres://u@/find?host=/run/postgresql"} {
		if _, err := (Options{URL: address}).config(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The connection is lost right when the commit is made, or before it: the database is asked, and by something that a
// crash does not give to another change.
func TestWhoLostTheConnectionAsksWhatBecameOfAChange(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	put(t, s, "a", "1", store.None)
	mark := server.SQL("find", "SELECT mark FROM teleport_find.commits")
	lost := errors.New("the connection was lost")
	if err := s.became(lost, mark); err != nil {
		t.Errorf("a change that was made: %v", err)
	}
	if err := s.became(lost, "of a change that was lost"); !errors.Is(err, lost) {
		t.Errorf("a change that was not made: %v", err)
	}
	for n := range 20 {
		put(t, s, fmt.Sprint("b", n), "1", store.None)
	}
	if err := s.became(lost, mark); err != nil {
		t.Errorf("a change that was made before some others: %v", err)
	}
	server.SQL("find", "ALTER TABLE teleport_find.commits ALTER COLUMN number RESTART WITH 10002")
	put(t, s, "c", "1", store.None)
	if marks := server.SQL("find", "SELECT min(number), max(number) FROM teleport_find.commits"); marks != "3|10002" {
		t.Errorf("there are the marks %s; want those of the last 10,000 numbers", marks)
	}
}

// Who asked for a change has gone, and nobody can say what became of the change: it is not told as one that was not made.
func TestWhatIsNotKnownIsSaidToWhoHasGone(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	for name, c := range map[string]struct {
		of      error
		unknown bool
	}{
		"nobody knows": {&finalError{&store.UnknownError{Err: errors.New("the connection was lost")}}, true},
		"not made":     {errors.New("the connection was lost"), false},
	} {
		ctx, leave := context.WithCancel(t.Context())
		err := s.do(ctx, operationLimit, func(context.Context, *pgxpool.Conn) error {
			leave()
			return c.of
		})
		if _, unknown := errors.AsType[*store.UnknownError](err); unknown != c.unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
}
