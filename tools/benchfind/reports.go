package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
	"teleport-update/tools/internal/figure"
)

// pollTime is how often each host reports.
const pollTime = 10 * time.Minute

func secretOf(host int) string { return "secret of the host " + hostID(host) }

// boot is how the server keeps the boot id of a host.
func boot(host int) uint32 {
	h := fnv.New32a()
	io.WriteString(h, hostID(host))
	return max(h.Sum32(), 1)
}

// populate writes hosts that have joined into a store, as the server keeps them: FILE HOSTS. They are written in the
// order of their keys, which takes a fraction of the time. It is a process of its own, or its memory would be
// taken for the server's.
func populate(ctx context.Context, args []string) error {
	hosts, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := store.OpenSQLite(ctx, args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	var change store.Change
	order := make([]int, hosts)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scatter(a), scatter(b)) })
	for n, i := range order {
		sum := sha256.Sum256([]byte(secretOf(i)))
		value := fmt.Sprintf(`{"secret_sha256_half":"%s","token":"web","updater_id":"%s","hostname":"ip-10-%d-%d.internal","group":"%s",`+
			`"version":"17.2.0","edition":"oss","arch":"amd64","first_seen":%d,"last_seen":%d,"boots":[%d,0,0]}`,
			hex.EncodeToString(sum[:16]), hostID(i+hosts), i>>8, i&255, groupOf(i), time.Now().Unix()-3600, time.Now().Unix()-120, boot(i))
		change.Writes = append(change.Writes, store.Write{Key: "agents/host/" + hostID(i), Value: []byte(value)})
		if len(change.Writes) == 10_000 || n == hosts-1 {
			if _, err := s.Commit(ctx, change); err != nil {
				return err
			}
			change.Writes = change.Writes[:0]
		}
	}
	return nil
}

// underWay is a site whose hosts have joined and are in plans under way.
type underWay struct {
	*site
	fleet  *inventory.Fleet
	engine *driver.Engine
}

func newUnderWay(ctx context.Context, hosts string) (u *underWay, err error) {
	s, err := newSite(ctx, 0, groups)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, self, "populate", s.path(), hosts).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("populate the store: %w\n%s", err, out)
	}
	log := slog.New(slog.DiscardHandler)
	began := time.Now()
	// It started long enough ago to know all hosts: else no group begins.
	age := rollout.PresentFor
	clock := func() time.Time { return time.Now().Add(-age) }
	fleet, err := inventory.OpenFleet(ctx, inventory.FleetOptions{
		Store: s.store, Clock: clock, Jitter: time.Minute, Named: s.stored.Named, Log: log,
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "  %-52s %8.2f s\n", fmt.Sprintf("%s hosts are loaded in", hosts), time.Since(began).Seconds())
	for ; age > 0; age -= time.Minute { // and has read the store since: a leap would be a pause, after which hosts have time
		if err := fleet.Sync(ctx); err != nil {
			return nil, err
		}
		for i := range fleet.Len() {
			if age == 2*time.Minute {
				fleet.Take(rollout.Heartbeat{HostID: hostID(i), Group: groupOf(i), Version: "17.2.0"}, clock())
			}
		}
	}
	if err := fleet.Tick(ctx); err != nil { // which writes who was seen
		return nil, err
	}
	engine := driver.NewEngine(driver.Options{
		Store: s.store, Clock: s.stored.Now, Plans: s.stored.Plans(), Inventory: fleet, Answers: s.stored, Log: log,
	})
	for range 2 { // the plans are captured, and the first hosts are told to update
		if _, err := engine.Tick(ctx); err != nil {
			return nil, err
		}
	}
	return &underWay{s, fleet, engine}, nil
}

// serveReports is the server with all of its hosts, which are in plans under way.
func serveReports(ctx context.Context, args []string) error {
	u, err := newUnderWay(ctx, args[0])
	if err != nil {
		return err
	}
	defer u.close()
	ticks := time.NewTicker(inventory.SyncEvery)
	defer ticks.Stop()
	go u.fleet.Run(ctx, ticks.C)
	u.saysBoth()
	engineTicks := time.NewTicker(driver.TickEvery)
	defer engineTicks.Stop()
	go u.engine.Run(ctx, engineTicks.C)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	fmt.Println("answers on", listener.Addr())
	log := slog.New(slog.DiscardHandler)
	handler := server.New(server.Options{Answers: u.stored, Fleet: u.fleet, Log: log})
	return server.Serve(ctx, listener, nil, handler, log)
}

// arrival sends the reports of all hosts, evenly, until ctx ends. What it returns says
// how many were answered with 200.
func arrival(ctx context.Context, address string, hosts int, sequence *int) (taken int, err error) {
	const lines = 8
	every := pollTime / time.Duration(hosts)
	*sequence++
	var all sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for line := range lines {
		all.Go(func() {
			count, failed := 0, error(nil)
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				taken, err = taken+count, errors.Join(err, failed)
			}()
			conn, failed := net.Dial("tcp", address)
			if failed != nil {
				return
			}
			defer conn.Close()
			reader := bufio.NewReader(conn)
			for i := line; ; i += lines {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(began.Add(time.Duration(i) * every))):
				}
				host := i * 7919 % hosts
				body := fmt.Sprintf(`{"host_id":"%s","sequence":%d,"boot_id":"%s","updater_id":"%s","hostname":"ip-10-%d-%d.internal",`+
					`"group":"%s","version":"17.2.0","edition":"oss","arch":"amd64"}`,
					hostID(host), *sequence, hostID(host), hostID(host+hosts), host>>8, host&255, groupOf(host))
				if _, failed = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: find.example.com\r\nAuthorization: Bearer %s\r\n"+
					"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
					find.HeartbeatPath, secretOf(host), len(body), body); failed != nil {
					return
				}
				if failed = readAnswer(reader); failed != nil {
					return
				}
				count++
			}
		})
	}
	all.Wait()
	return taken, err
}

// measureReports asks the server, the constant handler and nginx, while reports arrive. A tick of the engine is in
// each sample.
func measureReports(ctx context.Context, hosts, rounds int, each time.Duration) error {
	fmt.Printf("reports of %d hosts in %s\n", hosts, pollTime)
	each = max(each, driver.TickEvery)
	ours := &contender{name: "teleport-find", child: "reports"}
	contenders, stop := startAll(ctx, hosts,
		&contender{name: "constant net/http", child: "constant"}, ours, &contender{name: "nginx", child: "nginx"})
	defer stop()
	if ours.address == "" {
		return errors.New("without the server there is nothing to measure")
	}
	fmt.Printf("  %-52s %8d MB\n", "memory after the start (resident)", memory(ours, "VmRSS"))
	asked, sequence := requests(hosts), 0
	var taken, due float64
	for range rounds {
		for _, c := range contenders {
			arriving, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			began := time.Now()
			var count int
			go func() {
				var err error
				count, err = arrival(arriving, c.address, hosts, &sequence)
				done <- err
			}()
			err := c.asked(ctx, asked, each)
			stop()
			if err := errors.Join(err, <-done); err != nil {
				return err
			}
			if c == ours {
				taken, due = taken+float64(count), due+time.Since(began).Seconds()/pollTime.Seconds()*float64(hosts)
			}
		}
	}
	base := contenders[0]
	show(contenders)
	fmt.Printf("  %-52s %8.2f of those due\n", "reports taken meanwhile", taken/due)
	fmt.Printf("  %-52s %8d MB at most (goal: %d)\n", "memory (resident)", memory(ours, "VmHWM"), goalMemory)
	var rows []figure.Row
	for _, c := range contenders[1:] {
		rows = append(rows, against(base, c)...)
	}
	rows = append(rows, value("reports taken meanwhile, of those due", taken/due, "", 0),
		value("memory at most (resident)", float64(memory(ours, "VmHWM")), "MB", goalMemory))
	return record("find-reports", hosts, rounds, rows...)
}

// memory reads a line of what Linux says of a process, in megabytes.
func memory(c *contender, name string) int {
	data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.process.Process.Pid), "status"))
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kilobytes, _ := strconv.Atoi(strings.Fields(value)[0])
			return kilobytes / 1024
		}
	}
	return 0
}
