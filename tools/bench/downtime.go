package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/tools/internal/figure"
	"teleport-update/tools/internal/site"
)

const (
	// databaseMB is what a downgrade has to back up and to restore while the agent
	// is down.
	databaseMB = 50
	// margin is what else a downgrade may take without an agent.
	margin = time.Second
	askURL = "http://127.0.0.1:3000/version"
)

// downtime measures on a booted host for how long nothing answers there: in an
// update by reload; and in a downgrade, against a stop and a start of the agent
// alone and a restore alone of the same database.
func (b *bench) downtime() error {
	if err := site.Prepare(b.ctx); err != nil {
		b.table.skip("the time without an agent", err)
		return nil
	}
	s, err := site.New(b.ctx)
	if err != nil {
		return err
	}
	d := &outages{bench: b, Site: s}
	return errors.Join(d.measure(), s.Close())
}

// outages is a host whose agent is asked all the time.
type outages struct {
	*bench
	*site.Site
}

func (d *outages) measure() error {
	if err := d.begin(); err != nil {
		return err
	}
	var update, downgrade, restart, restore []time.Duration
	for round := range d.rounds {
		v := fmt.Sprintf("1.%d.0", round+1)
		if err := d.Release(release.Spec{Version: v, Schema: 2}); err != nil {
			return err
		}
		for _, step := range []struct {
			into *[]time.Duration
			run  func() (time.Duration, error)
		}{
			{&update, func() (time.Duration, error) { return d.change(v) }},
			{&restore, d.restoreAlone},
			{&restart, func() (time.Duration, error) {
				return d.without(func() error {
					return errors.Join(d.must("sh", "-c", "systemctl stop teleport && systemctl start teleport"), d.answers(v))
				})
			}},
			{&downgrade, func() (time.Duration, error) { return d.change("1.0.0") }},
		} {
			took, err := step.run()
			if err != nil {
				return err
			}
			*step.into = append(*step.into, took)
		}
	}
	r := d.table
	r.value("update by reload: time without an agent", float64(figure.Median(update).Microseconds())/1000, "ms", goalNoDowntime)
	alone := figure.Median(restart) + figure.Median(restore) + margin
	r.ratio(
		fmt.Sprintf("downgrade with a database of %d MB: time without an agent / a stop and a start alone + the restore + %v",
			databaseMB, margin),
		figure.Median(downgrade), goalDowntime, bound{took: alone})
	r.value("the same: a stop and a start alone", float64(figure.Median(restart).Milliseconds()), "ms", none)
	r.value("the same: the restore alone", float64(figure.Median(restore).Milliseconds()), "ms", none)
	return nil
}

// begin brings the host to 1.0.0 with a large database.
func (d *outages) begin() error {
	if err := d.Host.CopyIn(d.self, "/root/bench", 0o755); err != nil {
		return err
	}
	if err := d.Release(release.Spec{Version: "1.0.0", Schema: 1}); err != nil {
		return err
	}
	if err := d.StartFind(d.ctx); err != nil {
		return err
	}
	fill := fmt.Sprintf("CREATE TABLE other (data BLOB); INSERT INTO other VALUES (randomblob(%d))", databaseMB<<20)
	return errors.Join(
		d.must("teleport-update", "enable", "--health-window", "3s", "--template", site.Template),
		d.must("systemctl", "enable", "--now", "teleport"),
		d.answers("1.0.0"),
		d.must("sqlite3", "-cmd", ".timeout 10000", "/var/lib/teleport/proc/sqlite.db", fill),
	)
}

// change has the host go to a version, and says for how long nothing answered.
func (d *outages) change(v string) (time.Duration, error) {
	if err := d.Announce(d.ctx, v); err != nil {
		return 0, err
	}
	return d.without(func() error {
		return errors.Join(d.must("teleport-update", "update", "--now"), d.answers(v))
	})
}

// restoreAlone is how long it takes to put the backup that 1.0.0 left over a copy
// of the database of today.
func (d *outages) restoreAlone() (time.Duration, error) {
	const copied = "/srv/alone/sqlite.db"
	const script = "rm -rf /srv/alone; mkdir -m 700 /srv/alone" +
		" && sqlite3 -cmd '.timeout 10000' /var/lib/teleport/proc/sqlite.db '.backup " + copied + "'" +
		" && sqlite3 " + copied + " 'PRAGMA journal_mode=wal'"
	if err := d.must("sh", "-c", script); err != nil {
		return 0, err
	}
	r, err := d.Host.Run(d.ctx, "/root/bench", "restore", "/var/lib/teleport/versions/1.0.0/backup", copied)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("restore: exit code %d: %s", r.Code, r.Stderr)
	}
	if err != nil {
		return 0, err
	}
	var restored result
	err = json.Unmarshal([]byte(r.Stdout), &restored)
	return time.Duration(restored.Seconds * float64(time.Second)), err
}

func (d *outages) must(args ...string) error {
	r, err := d.Host.Run(d.ctx, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return err
}

// answers waits until a version of the agent answers.
func (d *outages) answers(v string) error {
	ctx, cancel := context.WithTimeout(d.ctx, host.Patience)
	defer cancel()
	for {
		got, err := ask(ctx, d.Host.HTTP())
		if err == nil && got == v {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("version %q answers (%v); want %s", got, err, v)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// without asks the agent every other millisecond, each time on a connection of its
// own, while work is done, and adds up the times in which no answer came: from the
// last one before a failure to the first one after it. The work has to last until
// there is an answer again.
func (d *outages) without(work func() error) (time.Duration, error) {
	ctx, stop := context.WithCancel(d.ctx)
	defer stop()
	var out time.Duration
	var asker sync.WaitGroup
	asker.Go(func() {
		client := d.Host.HTTP()
		last, failed := time.Now(), false
		for ctx.Err() == nil {
			_, err := ask(ctx, client)
			switch now := time.Now(); {
			case err != nil:
				failed = true
			case failed:
				out += now.Sub(last)
				failed, last = false, now
			default:
				last = now
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	err := work()
	stop()
	asker.Wait()
	return out, err
}

// ask returns the version that answers.
func ask(ctx context.Context, client *http.Client) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, askURL, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s, %v", askURL, response.Status, err)
	}
	var who struct {
		Version string `json:"version"`
	}
	return who.Version, json.Unmarshal(data, &who)
}
