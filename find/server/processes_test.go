package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// Processes of their own, one of which is killed now and then: no group advances
// twice.
func TestEnginesInProcessesOfTheirOwn(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: a, days: ['*'], start_hour: 4, max_in_flight: 7}, {name: b, days: ['*'], start_hour: 4, canary_count: 3}, {name: c, days: ['*'], start_hour: 4, max_in_flight: 50%}"))
	w.write(strings.Replace(scheduled, "agents: {", "agents: {schedule: critical, ", 1)) // at any hour
	start := func() *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, w.path)
		cmd.Env = append(os.Environ(), "SERVER_TEST_ROLE=engine")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first, second := start(), start()
	done := func() bool {
		item, err := w.other.Get(t.Context(), rollout.KindRollout)
		return err == nil && parseAll(t, string(item.Value))[0].(*rollout.Rollout).Status.State == rollout.Done
	}
	head := store.None
	for kills := 0; !done(); {
		_, at, err := w.other.List(t.Context(), "autoupdate_")
		if err != nil || at == head {
			time.Sleep(time.Millisecond)
			continue
		}
		head = at
		if kills < 5 && rand.IntN(2) == 0 {
			kills++
			first.Process.Kill()
			first.Wait()
			first = start()
		}
	}
	for _, cmd := range []*exec.Cmd{first, second} {
		cmd.Process.Kill()
		cmd.Wait()
	}
	records, err := w.other.History(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]int)
	for _, r := range records {
		if r.Key != rollout.KindRollout {
			continue
		}
		for step := range strings.SplitSeq(r.What, ", ") {
			times[step]++
		}
	}
	for _, step := range []string{"a new rollout (new_version)", "a unstarted → active (in_window)", "a active → done (update_complete)", "b unstarted → canary (in_window)",
		"b canary → active (canaries_done)", "b active → done (update_complete)", "c unstarted → active (in_window)", "c active → done (update_complete)"} {
		if times[step] != 1 {
			t.Errorf("%s: %d times", step, times[step])
		}
		delete(times, step)
	}
	if len(times) > 0 {
		t.Errorf("what else happened: %v", times)
	}
}

// runEngine is a server with hosts of its own, that come to what they are told.
func runEngine(path string) error {
	ctx := context.Background()
	s, err := store.OpenSQLite(ctx, path)
	if err != nil {
		return err
	}
	// A clock that goes on by ten seconds a round, after which the index of a plan
	// may be written again, however long the round takes.
	began, rounds := time.Now(), 0
	now := func() time.Time { return began.Add(time.Duration(rounds) * 10 * time.Second) }
	log := slog.New(slog.DiscardHandler)
	options := answers.StoredOptions{Store: s, Base: base, Clock: now, Log: log}
	stored, err := answers.NewStored(ctx, options)
	if err != nil {
		return err
	}
	fleet := inventory.NewFleet(began.Add(-rollout.PresentFor), 0)
	engine := driver.NewEngine(driver.Options{Store: s, Clock: now, Plans: stored.Plans(), Inventory: fleet, Answers: stored, Log: log})
	hosts := make([]rollout.Heartbeat, 60)
	for i := range hosts {
		hosts[i] = rollout.Heartbeat{HostID: hostUUID(i), Group: []string{"a", "b", "c"}[i%3], Version: "17.2.0"}
		fleet.Take(hosts[i], began.Add(-2*time.Minute))
	}
	for ; ; rounds++ {
		for i := range hosts {
			a := stored.AnswerTo(rollout.Query{Group: hosts[i].Group, Host: hosts[i].HostID})
			if a.AutoUpdate {
				hosts[i].Version, hosts[i].Told = rollout.Semver(a.Version), rollout.Semver(a.Version)
			}
			fleet.Take(hosts[i], now())
		}
		if _, err := engine.Tick(ctx); err != nil && !errors.Is(err, sqlite3.BUSY) {
			if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
				return err
			}
		}
		if err := stored.Refresh(ctx); err != nil && !errors.Is(err, sqlite3.BUSY) {
			return err
		}
	}
}

// The test binary is also the other processes of these tests.
func TestMain(m *testing.M) {
	if os.Getenv("SERVER_TEST_ROLE") != "engine" {
		os.Exit(m.Run())
	}
	if err := runEngine(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}
