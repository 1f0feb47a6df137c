package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/channels"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
	releases "teleport-update/internal/version"
)

var writeDocs = flag.Bool("write-docs", false, "write what the commands print into docs/find.md")

// station is a server with a clock that a test sets, hosts that report to it over
// HTTP, and a person with the command line.
type station struct {
	t      *testing.T
	mu     sync.Mutex
	now    time.Time
	dir    string
	stored *answers.Stored
	engine *driver.Engine
	fleet  *inventory.Fleet
	http   *httptest.Server
	admin  *httptest.Server // the admin API for those who have a token
	token  string
	hosts  map[string]*storyHost
	names  []string
}

// storyHost is a host: its own record of what it has reported.
type storyHost struct {
	id, secret, group, version string
	sequence                   uint32
	outcome                    *find.Outcome
}

func (s *station) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// newStation begins on a Monday at 11:00, with hosts that have reported for longer than
// the server needs to know them all.
func newStation(t *testing.T, groups map[string]int) *station {
	t.Helper()
	s := &station{t: t, now: time.Date(2025, 6, 2, 10, 0, 0, 0, time.UTC), dir: t.TempDir(), hosts: make(map[string]*storyHost)}
	log := slog.New(slog.DiscardHandler)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.Mkdir(filepath.Join(s.dir, "store"), 0o700))
	kept, err := store.OpenSQLite(t.Context(), filepath.Join(s.dir, "store", "store.db"))
	check(err)
	t.Cleanup(func() { kept.Close() })
	s.stored, err = answers.NewStored(t.Context(), answers.StoredOptions{
		Store: kept, Base: find.Answer{Version: "15.1.1", Edition: releases.OSS, AutoUpdate: true}, Clock: s.clock, Log: log,
	})
	check(err)
	s.fleet, err = inventory.OpenFleet(t.Context(), inventory.FleetOptions{Store: kept, Clock: s.clock, Log: log,
		Overrides: func() rollout.Overrides { return s.stored.Resources().Overrides }})
	check(err)
	s.engine = driver.NewEngine(driver.Options{Store: kept, Clock: s.clock, Plans: s.stored.Plans(), Inventory: s.fleet, Answers: s.stored, Log: log})
	channels, err := channels.NewChannels(channels.ChannelsOptions{Groups: s.stored, Clock: s.clock, Log: log})
	check(err)
	s.http = httptest.NewServer(server.New(server.Options{Answers: s.stored, Fleet: s.fleet, Channels: channels, Log: log}))
	t.Cleanup(s.http.Close)
	socket := filepath.Join(s.dir, "admin.sock")
	listener, err := admin.Listen(t.Context(), socket)
	check(err)
	access := admin.NewAccess(kept, s.clock)
	api := admin.New(admin.Options{Stored: s.stored, Store: kept, Engine: s.engine, Fleet: s.fleet, Channels: channels, Access: access, Log: log})
	go admin.Serve(t.Context(), listener, api, log)
	s.admin = httptest.NewTLSServer(admin.RequireAccess(access, api))
	t.Cleanup(s.admin.Close)
	t.Setenv("TELEPORT_FIND_ADMIN_SOCKET", socket)
	var made adminapi.Token
	check((&adminClient{at: socket, base: "http://admin", http: newSocketClient(socket)}).ask(t.Context(), http.MethodPost, "/v1/tokens", adminapi.TokenRequest{Name: "all"}, &made))
	s.token = made.Token
	for _, group := range []string{"dev", "staging", "prod", "typo"} {
		for i := range groups[group] {
			s.join(group, i)
		}
	}
	s.pass(time.Hour)
	return s
}

// join has a host join with a secret of its own.
func (s *station) join(group string, i int) {
	s.t.Helper()
	name := fmt.Sprintf("%s-%d", group, i+1)
	h := &storyHost{id: fmt.Sprintf("%08x-0000-4000-8000-000000000000", len(s.names)+1), secret: fmt.Sprintf("the-secret-of-%s-and-nobody-else", name), group: group, version: "15.1.1"}
	s.hosts[name] = h
	s.names = append(s.names, name)
	s.post(find.JoinPath, s.token, find.Join{HostID: h.id, SecretHash: fmt.Sprintf("%x", sha256.Sum256([]byte(h.secret))), Group: group, Hostname: name})
	s.report(name, "")
}

func (s *station) post(path, secret string, body any) {
	s.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.http.URL+path, bytes.NewReader(data))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var said find.HeartbeatError
		json.NewDecoder(resp.Body).Decode(&said)
		s.t.Fatalf("%s: %s %s", path, resp.Status, said.Error)
	}
}

func (s *station) report(name, told string) {
	s.t.Helper()
	h := s.hosts[name]
	h.sequence++
	s.post(find.HeartbeatPath, h.secret, find.Heartbeat{
		HostID: h.id, Sequence: h.sequence, BootID: "boot of " + name, Hostname: name, Group: h.group, Version: h.version, Edition: "oss", Told: told, Outcome: h.outcome,
	})
}

// pass lets time pass: hosts ask and report every ten minutes. One that is told to
// update begins, and has updated at its next poll, but those that break.
func (s *station) pass(d time.Duration, breaks ...string) {
	s.t.Helper()
	for end := s.clock().Add(d); s.clock().Before(end); {
		s.mu.Lock()
		s.now = s.now.Add(10 * time.Minute)
		s.mu.Unlock()
		s.tick()
		for _, name := range s.names {
			h := s.hosts[name]
			if h.outcome != nil && h.outcome.State == "started" {
				h.end(s.clock(), slices.Contains(breaks, name))
				s.report(name, "")
			}
			a := s.stored.AnswerTo(rollout.Query{Group: h.group, Host: h.id})
			told := ""
			if a.AutoUpdate && a.Version != h.version {
				told = a.Version
				if h.outcome == nil || h.outcome.Target != a.Version || h.outcome.State == "succeeded" {
					h.outcome = &find.Outcome{Target: a.Version, State: "started", Time: s.clock()}
				}
			}
			s.report(name, told)
		}
		s.tick()
	}
}

func (h *storyHost) end(now time.Time, breaks bool) {
	h.outcome.Time = now
	if breaks {
		h.outcome.State, h.outcome.Error = "rolled_back", "the agent died of SIGSEGV 4 s after its start"
		return
	}
	h.version, h.outcome.State = h.outcome.Target, "succeeded"
}

func (s *station) tick() {
	s.t.Helper()
	if err := s.fleet.Tick(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.engine.Tick(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// run is what a person sees: both outputs, and the exit code where it is not 0.
func (s *station) run(line string) string {
	s.t.Helper()
	s.t.Chdir(s.dir)
	var out bytes.Buffer
	args := strings.Fields(line)
	if i := strings.Index(line, " --reason "); i >= 0 {
		args = append(strings.Fields(line[:i]), "--reason", strings.Trim(line[i+len(" --reason "):], `"`))
	}
	code := run(append([]string{"teleport-find"}, args...), &out, &out)
	if code != 0 {
		fmt.Fprintf(&out, "(exit code %d)\n", code)
	}
	return s.fixed(out.String())
}

// fixed replaces what differs from run to run.
func (s *station) fixed(text string) string {
	text = strings.ReplaceAll(text, fmt.Sprintf("uid %d", os.Getuid()), "uid 0")
	// Revisions count what hosts report too: only their order is that of every run.
	revision := regexp.MustCompile(`(?m)  \d+ → \d+(  |$)`)
	var all []string
	for _, pair := range revision.FindAllString(text, -1) {
		all = append(all, strings.Split(strings.TrimSpace(pair), " → ")...)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	all = slices.Compact(all)
	text = revision.ReplaceAllStringFunc(text, func(pair string) string {
		bare := strings.TrimSpace(pair)
		numbers := strings.Split(bare, " → ")
		for i, n := range numbers {
			if n != "0" {
				numbers[i] = fmt.Sprint(100 + slices.Index(all, n))
			}
		}
		return strings.Replace(pair, bare, strings.Join(numbers, " → "), 1)
	})
	return regexp.MustCompile(`"(snapshot_age_seconds)":[0-9.e-]+`).ReplaceAllString(text, `"$1":0`)
}
