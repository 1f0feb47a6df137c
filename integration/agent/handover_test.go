package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
)

// alive is false for a process that has ended, reaped or not.
func alive(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil
}

func TestAReloadHandsOverWithoutAGap(t *testing.T) {
	p := newPlace(t)
	p.install(as("1.0.0", stamp.Sound, 1))
	agent := p.start()
	old := p.serves("1.0.0")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			if _, status, err := p.get("/readyz"); err != nil || status != 200 {
				t.Errorf("during the hand-over: %d, %v", status, err)
				return
			}
		}
	})
	p.install(as("1.1.0", stamp.Sound, 2))
	agent.Process.Signal(syscall.SIGHUP)
	if code := p.code(agent); code != 0 {
		t.Errorf("the old process left with %d", code)
	}
	new := p.serves("1.1.0")
	stop()
	asking.Wait()
	if new == old || p.pidFile() != new {
		t.Errorf("PID %d serves, the PID file says %d; the old one was %d", new, p.pidFile(), old)
	}
	if who, err := p.who(); err != nil || !who.Handover || who.Executable != p.path("1.1.0/teleport") {
		t.Errorf("who serves: %+v, %v", who, err)
	}

	// The new one can hand over too.
	p.install(as("1.2.0", stamp.Sound, 2))
	syscall.Kill(new, syscall.SIGHUP)
	last := p.serves("1.2.0")
	host.Wait(t, 10*time.Second, func() error {
		if alive(new) {
			return errors.New("the second process is still there")
		}
		return nil
	})
	syscall.Kill(last, syscall.SIGTERM)
	host.Wait(t, 10*time.Second, func() error {
		if alive(last) {
			return errors.New("the third process is still there")
		}
		return nil
	})
	r := p.report()
	if r.Rows != r.Last || r.Integrity != "ok" || r.ByVersion["1.0.0"] == 0 || r.ByVersion["1.1.0"] == 0 {
		t.Errorf("the database holds %+v", r)
	}
}

func TestAnOldProcessWaitsForItsSessions(t *testing.T) {
	p := newPlace(t)
	p.install(sound("1.0.0"))
	agent := p.start()
	p.serves("1.0.0")
	resp, err := http.Get("http://" + p.logs.address() + "/session")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	session := bufio.NewScanner(resp.Body)

	p.install(sound("1.1.0"))
	agent.Process.Signal(syscall.SIGHUP)
	p.serves("1.1.0")
	p.logged("leaving when the sessions are over")
	for range 10 {
		if want := fmt.Sprintf("1.0.0 %d", agent.Process.Pid); !session.Scan() || session.Text() != want {
			t.Fatalf("the session got %q, %v; want %q", session.Text(), session.Err(), want)
		}
	}
	resp.Body.Close()
	if code := p.code(agent); code != 0 {
		t.Errorf("the old process left with %d", code)
	}
}

func TestReloadsThatGoWrong(t *testing.T) {
	const oldDies, oldServes, oldDrains = "the old process leaves", "the old process serves on", "the old process drains"
	for _, tc := range []struct {
		name      string
		from, to  stamp.Variant
		logged    string
		serves    string // version
		old       string
		schema    int64
		pidIsDead bool
	}{
		{"sound to sound", stamp.Sound, stamp.Sound, "Left:", "1.1.0", oldDies, 2, false},
		{"the new one exits at start", stamp.Sound, stamp.ExitsAtStart, "died before it was ready", "1.0.0", oldServes, 1, false},
		{"the new one exits with 0", stamp.Sound, stamp.ExitsZero, "died before it was ready", "1.0.0", oldServes, 1, false},
		{"the new one migrates and exits", stamp.Sound, stamp.MigratesThenExits, "died before it was ready", "1.0.0", oldServes, 2, false},
		{"the new one dies", stamp.Sound, stamp.DiesOnReload, "died before it was ready", "1.0.0", oldServes, 2, false},
		{"the new one dies in a hand-over only", stamp.Sound, stamp.HandoverDies, "died before it was ready", "1.0.0", oldServes, 2, false},
		{"the new one dies with the PID file", stamp.Sound, stamp.HandoverDiesLate, "died before it was ready", "1.0.0", oldServes, 2, true},
		{"the old one ignores it", stamp.IgnoresReload, stamp.Sound, "signal=hangup", "1.0.0", oldServes, 1, false},
		{"the old one executes itself", stamp.ReexecutesItself, stamp.Sound, "signal=hangup", "1.0.0", oldServes, 1, false},
		{"the old one drains", stamp.Drains, stamp.Sound, "leaving when the sessions are over", "1.1.0", oldDrains, 2, false},
		{"the old one hangs on stop", stamp.HangsOnStop, stamp.Sound, "Left:", "1.1.0", oldDies, 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			p.install(as("1.0.0", tc.from, 1))
			agent := p.start()
			pid := p.serves("1.0.0")
			p.install(as("1.1.0", tc.to, 2))
			agent.Process.Signal(syscall.SIGHUP)
			p.logged(tc.logged)
			if tc.from == stamp.ReexecutesItself {
				host.Wait(t, 10*time.Second, func() error {
					if n := strings.Count(p.logs.String(), "Started."); n != 2 {
						return fmt.Errorf("started %d times; want twice", n)
					}
					return nil
				})
			}
			serving := p.serves(tc.serves)
			if p.pidFile() == serving == tc.pidIsDead || alive(p.pidFile()) == tc.pidIsDead {
				t.Errorf("the PID file says %d; %d serves", p.pidFile(), serving)
			}
			switch tc.old {
			case oldDies:
				if code := p.code(agent); code != 0 {
					t.Errorf("the old process left with %d", code)
				}
			case oldServes:
				if serving != pid {
					t.Errorf("PID %d serves; want the old one, %d", serving, pid)
				}
			case oldDrains:
				if serving == pid || !alive(pid) {
					t.Errorf("PID %d serves, the old one is %d, alive: %v", serving, pid, alive(pid))
				}
			}
			if r := p.report(); r.Schema != tc.schema || r.Integrity != "ok" {
				t.Errorf("the database holds %+v; want schema %d", r, tc.schema)
			}
		})
	}
}
