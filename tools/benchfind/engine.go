package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
	"teleport-update/internal/version"
	"teleport-update/tools/internal/figure"
)

// groups is how many groups the hosts are in.
const groups = 20

func groupOf(host int) string { return "group-" + strconv.Itoa(host%groups) }

// scatter is as random as UUIDs are, and the same each time. The order of its results is that of the ids.
func scatter(host int) uint64 { return uint64(host) * 0x9e3779b97f4a7c15 }

func hostID(host int) string {
	x := scatter(host)
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(x>>32), uint16(x>>16), x>>4&0xfff, host>>12&0xfff, host)
}

// site is a server without a network, in a store of its own.
type site struct {
	dir    string
	store  *store.SQLite
	stored *answers.Stored
	engine *driver.Engine
	fleet  *inventory.Fleet
}

// newSite has so many hosts in so many groups, each with a plan that is to begin.
func newSite(ctx context.Context, hosts, inGroups int) (s *site, err error) {
	s = new(site)
	if s.dir, err = os.MkdirTemp("", "benchfind-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.store, err = store.OpenSQLite(ctx, s.path()); err != nil {
		return nil, err
	}
	now := time.Now()
	config := rollout.NewConfig()
	agents := &config.Spec.Agents
	agents.Mode, agents.Strategy, agents.Window = rollout.Enabled, rollout.TimeBased, rollout.Duration(24*time.Hour)
	hour := now.UTC().Hour()
	for i := range inGroups {
		agents.Schedules.Regular = append(agents.Schedules.Regular, rollout.Group{
			Name: groupOf(i), Days: []rollout.Day{rollout.EveryDay}, StartHour: &hour, MaxInFlight: &rollout.Share{N: 10, Percent: true},
		})
	}
	target := rollout.NewVersion()
	target.Spec.Agents = rollout.VersionAgents{StartVersion: "17.2.0", TargetVersion: "17.2.1"}
	log := slog.New(slog.DiscardHandler)
	if s.stored, err = answers.NewStored(ctx, answers.StoredOptions{
		Store: s.store, Base: find.Answer{Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute}, Log: log,
	}); err != nil {
		return nil, err
	}
	if _, err = s.stored.Apply(ctx, []rollout.Resource{config, target}, answers.ApplyOptions{}); err != nil {
		return nil, err
	}
	s.fleet = inventory.NewFleet(now.Add(-rollout.PresentFor), time.Minute)
	for i := range hosts {
		group := groupOf(i % inGroups)
		if inGroups == groups {
			group = groupOf(i)
		}
		report := rollout.Heartbeat{HostID: hostID(i), Hostname: "host", Group: group, Version: "17.2.0", Edition: "oss", Arch: "amd64"}
		s.fleet.Take(report, now.Add(-2*time.Minute))
	}
	s.engine = driver.NewEngine(driver.Options{
		Store: s.store, Clock: s.stored.Now, Plans: s.stored.Plans(), Inventory: s.fleet, Answers: s.stored, Log: log,
	})
	_, err = s.engine.Tick(ctx) // the rollout begins
	return s, err
}

func (s *site) path() string { return filepath.Join(s.dir, "store", "store.db") }

func (s *site) close() {
	if s.store != nil {
		s.store.Close()
	}
	os.RemoveAll(s.dir)
}

// tick measures one, in seconds of time and of CPU.
func (s *site) tick(ctx context.Context) (wall, cpu float64, err error) {
	began, used := time.Now(), cpuTime()
	_, err = s.engine.Tick(ctx)
	return time.Since(began).Seconds(), cpuTime() - used, err
}

func cpuTime() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// measureEngine runs in a process of its own: memory and CPU are its own too.
func measureEngine(ctx context.Context, hosts, rounds int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "engine", strconv.Itoa(hosts), strconv.Itoa(rounds))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func runEngine(ctx context.Context, args []string) error {
	hosts, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	fmt.Printf("engine, %d hosts, medians of %d\n", hosts, rounds)

	plan, plain, err := measurePlan(ctx, hosts, rounds)
	if err != nil {
		return err
	}
	fmt.Printf("  %-52s %8.2f s, the bound %.2f s: %.2f times (goal: %.1f)\n",
		"a plan for all hosts in one group, into the store", plan, plain, plan/plain, goalPlan)
	many, err := newSite(ctx, hosts, groups)
	if err != nil {
		return err
	}
	defer many.close()
	wall, cpu, err := many.tick(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("  %-52s %8.2f s, %.2f s of CPU\n", fmt.Sprintf("the tick that captures %d plans", groups), wall, cpu)
	if _, _, err = many.tick(ctx); err != nil { // and reads them
		return err
	}
	bound := newPass(hosts)
	bound.cpu() // the first one meets memory that was just written
	var walls, cpus, passes []float64
	for range rounds {
		wall, cpu, err := many.tick(ctx)
		if err != nil {
			return err
		}
		walls, cpus, passes = append(walls, wall), append(cpus, cpu), append(passes, bound.cpu())
	}
	tick, least := figure.Median(cpus), figure.Median(passes)
	what := fmt.Sprintf("a tick over %d groups with plans", groups)
	fmt.Printf("  %-52s %8.2f s, %.1f ms of CPU, the bound %.1f ms: %.2f times (goal: %.1f)\n",
		what, figure.Median(walls), tick*1000, least*1000, tick/least, goalTick)
	return record("find-engine", hosts, rounds,
		ratio("a plan for all hosts in one group, into the store / drawing them, and its pages in a file", plan, plain, "s", goalPlan),
		ratio(what+": CPU / a plain pass over as many records", tick*1000, least*1000, "ms", goalTick))
}

// measurePlan captures plans for all hosts, each in a site of its own, in turns with plain
// ones. It returns medians in seconds.
func measurePlan(ctx context.Context, hosts, rounds int) (plan, plain float64, err error) {
	var plans, plains []float64
	for range rounds {
		one, err := newSite(ctx, hosts, 1)
		if err != nil {
			return 0, 0, err
		}
		wall, _, err := one.tick(ctx)
		one.close()
		if err != nil {
			return 0, 0, err
		}
		runtime.GC()
		least, err := plainPlan(hosts)
		if err != nil {
			return 0, 0, err
		}
		plans, plains = append(plans, wall), append(plains, least)
	}
	return figure.Median(plans), figure.Median(plains), nil
}

// serveFind is the server itself, with its plans under way.
func serveFind(ctx context.Context, args []string) error {
	hosts, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	s, err := newSite(ctx, hosts, groups)
	if err != nil {
		return err
	}
	defer s.close()
	for range 2 { // the plans are captured, and the first hosts are told to update
		if _, _, err := s.tick(ctx); err != nil {
			return err
		}
	}
	s.fleet = nil
	runtime.GC()
	log := slog.New(slog.DiscardHandler)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.saysBoth()
	fmt.Println("answers on", listener.Addr())
	return server.Serve(ctx, listener, nil, server.New(server.Options{Answers: s.stored, Log: log}), log)
}

// saysBoth tells how many hosts are told to update: some of them, as in a rollout.
func (s *site) saysBoth() {
	yes := 0
	for i := range 1000 {
		if s.stored.AnswerTo(rollout.Query{Group: groupOf(i), Host: hostID(i)}).AutoUpdate {
			yes++
		}
	}
	fmt.Fprintf(os.Stderr, "  of the first 1000 hosts %d are told to update\n", yes)
}
