package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/tools/internal/figure"
)

// patience is for how long a start is waited for.
const patience = 5 * time.Minute

// prepare leaves a store with hosts in plans under way in a folder: DIR HOSTS. It is a process of its own, as populate is.
func prepare(ctx context.Context, args []string) error {
	u, err := newUnderWay(ctx, args[1])
	if err != nil {
		return err
	}
	defer u.close()
	err = u.store.Close()
	u.store = nil
	return errors.Join(err, os.Rename(filepath.Dir(u.path()), filepath.Join(args[0], "store")))
}

// measureStart starts the program itself on a store with all hosts, in a rollout with plans, and asks it until it answers.
func measureStart(ctx context.Context, hosts, rounds int) error {
	dir, err := os.MkdirTemp("", "benchfind-start-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "teleport-find")
	for _, command := range [][]string{{"go", "build", "-o", program, "./cmd/teleport-find"}, {self, "prepare", dir, strconv.Itoa(hosts)}} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", command[0], err, out)
		}
	}
	var answers, costs, reports []float64
	for range rounds {
		one, err := startOnce(ctx, program, filepath.Join(dir, "store", "store.db"), hosts)
		if err != nil {
			return err
		}
		answers, costs, reports = append(answers, one.answer.Seconds()), append(costs, one.cost.Seconds()), append(reports, one.report.Seconds())
	}
	fmt.Printf("a start with %d hosts in plans, medians of %d\n", hosts, rounds)
	fmt.Printf("  %-52s %8.2f s (goal: %d)\n", "first answer", figure.Median(answers), goalStart)
	fmt.Printf("  %-52s %8.2f s\n", "CPU until then", figure.Median(costs))
	fmt.Printf("  %-52s %8.2f s\n", "first report that is taken", figure.Median(reports))
	return record("find-start", hosts, rounds, value("first answer after a start", figure.Median(answers), "s", goalStart),
		value("CPU until the first answer", figure.Median(costs), "s", goalStart), value("first report that is taken after a start", figure.Median(reports), "s", 0))
}

// started is when a server has answered first, and taken a report, and what CPU the first answer cost: with other work
// beside, the time of the first answer says as much of that.
type started struct{ answer, cost, report time.Duration }

// startOnce starts a server, and stops it.
func startOnce(ctx context.Context, program, kept string, hosts int) (s started, err error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	address := free.Addr().String()
	free.Close()
	server := exec.CommandContext(ctx, program, "serve", "--listen", address, "--store", kept, "--admin-socket", filepath.Join(filepath.Dir(kept), "admin.sock"))
	began := time.Now()
	if err := server.Start(); err != nil {
		return s, err
	}
	defer func() {
		server.Process.Signal(os.Interrupt)
		server.Wait()
	}()
	host := hosts / 2
	if s.answer, err = until(ctx, began, func() (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/webapi/find?group="+groupOf(host)+"&host="+hostID(host), nil)
	}, "17.2.1"); err != nil {
		return s, err
	}
	s.cost = (&contender{process: server}).used()
	s.report, err = until(ctx, began, func() (*http.Request, error) {
		body := fmt.Sprintf(`{"host_id":"%s","sequence":%d,"boot_id":"%s","group":"%s","version":"17.2.0"}`, hostID(host), fleet.SequenceAt(time.Now()), hostID(host),
			groupOf(host))
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+find.HeartbeatPath, strings.NewReader(body))
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+secretOf(host))
			r.Header.Set("Content-Type", "application/json")
		}
		return r, err
	}, "")
	return s, err
}

// until asks until there is an answer with 200 that has some text in it.
func until(ctx context.Context, began time.Time, request func() (*http.Request, error), text string) (time.Duration, error) {
	last := ""
	for time.Since(began) < patience && ctx.Err() == nil {
		r, err := request()
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			last = err.Error()
			time.Sleep(time.Millisecond)
			continue
		}
		said, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(said), text) {
			return time.Since(began), nil
		}
		last = resp.Status + " " + string(said)
		time.Sleep(5 * time.Millisecond)
	}
	return 0, fmt.Errorf("the server does not answer: %s", last)
}
