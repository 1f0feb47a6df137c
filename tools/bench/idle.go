package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"teleport-update/installer/transaction"
	"teleport-update/integration/host"
	"teleport-update/tools/internal/figure"
)

// idle measures an update that finds nothing to do, over verified https, without
// and with a report, against the least that such a program can do: the same
// program makes the one request and leaves. It is a run of the timer: a person's looks at the
// content of every file, too.
func (b *bench) idle() error {
	if err := withoutSystemd(); err != nil {
		b.table.skip("a run with nothing to do", err)
		return nil
	}
	if err := b.serve(); err != nil {
		return err
	}
	find, err := b.serveFind(b.in.gzip)
	if err != nil {
		return err
	}
	defer find.stop()
	least, err := b.buildRequest()
	if err != nil {
		return err
	}
	token, err := find.token()
	if err != nil {
		return err
	}
	update, err := b.idleHost("update, nothing to do", find)
	if err != nil {
		return err
	}
	reporting, err := b.idleHost("update, nothing to do, with a report", find, "--report-token-file", token)
	if err != nil {
		return err
	}
	request := contender{"one request", []string{least, find.url + "/v1/webapi/find", find.ca}, nil}
	for _, c := range []contender{update, reporting} { // the first run of a boot has more to write
		if out, err := b.command(c, b.work).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", c.name, err, out)
		}
	}
	cpu, err := b.inTurns([]contender{update, request, reporting})
	if err != nil {
		return err
	}
	updates, reports := cpu[update.name], cpu[reporting.name]
	one := bound{took: figure.Median(cpu[request.name])}
	b.table.ratio("nothing to do: CPU / that of the same program making its one request", figure.Median(updates), goalIdleCPU, one)
	b.table.ratio("nothing to do, and a report: CPU / that of the same program making its one request", figure.Median(reports), goalIdleCPU, one)
	for _, row := range []struct {
		what string
		contender
	}{{"nothing to do: peak memory", update}, {"nothing to do, and a report: peak memory", reporting}} {
		kib, err := b.memories(row.contender, 5)
		if err != nil {
			return err
		}
		b.table.value(row.what, float64(kib)/1024, "MiB", goalIdleMemory)
	}
	return find.heardOfOne()
}

// inTurns returns the CPU of each run, by the names of the contenders.
func (b *bench) inTurns(contenders []contender) (map[string][]time.Duration, error) {
	cpu := make(map[string][]time.Duration)
	for range 4 * b.rounds {
		time.Sleep(reportPause)
		// By chance: a rotation has each of them follow the same one always.
		for _, k := range rand.Perm(len(contenders)) {
			c := contenders[k]
			chill()
			cmd := b.command(c, b.work)
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", c.name, err, out)
			}
			usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			cpu[c.name] = append(cpu[c.name], time.Duration(usage.Utime.Nano()+usage.Stime.Nano()))
		}
	}
	return cpu, nil
}

// chill has what begins next find none of its own in the processor's caches, as a run of the
// timer finds them: after another program, or after ten minutes. Else what a contender finds
// there depends on which one ran before it.
func chill() {
	for i := 0; i < len(chilled); i += cacheLine {
		chilled[i]++
	}
}

// chilled is larger than a processor's caches.
var chilled = make([]byte, 128<<20)

const cacheLine = 64

// reportPause lies between two reports of a host: the server takes no more than thirty in a minute, and of two in
// a second the other one is sent again.
const reportPause = 2100 * time.Millisecond

// idleHost enables a host of its own, and returns the run that finds nothing to do there.
func (b *bench) idleHost(name string, find *findServer, flags ...string) (contender, error) {
	dir, err := os.MkdirTemp(b.work, "idle-")
	if err != nil {
		return contender{}, err
	}
	enable := b.enable("enable", find)
	enable.argv = append(enable.argv, flags...)
	if out, err := b.command(enable, dir).CombinedOutput(); err != nil {
		return contender{}, fmt.Errorf("%w\n%s", err, out)
	}
	// The agent writes it, and without it there is no name to report by.
	id := filepath.Join(dir, "data", "host_uuid")
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		return contender{}, err
	}
	// As the timer's unit starts it.
	env := []string{"RUNTIME_DIRECTORY=" + run, transaction.ScheduledVariable + "=1"}
	return contender{name, append(b.flags(dir), "update"), env}, os.WriteFile(id, []byte("00000001-0000-4000-8000-000000000000\n"), 0o644)
}

// buildRequest builds the program that makes the one request alone.
func (b *bench) buildRequest() (program string, err error) {
	dir, err := os.MkdirTemp(b.work, "request-")
	if err != nil {
		return "", err
	}
	request, err := host.OneRequest(dir)
	if err != nil {
		return "", err
	}
	return host.Build(b.ctx, request)
}
