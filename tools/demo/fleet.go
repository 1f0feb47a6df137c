package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/fleet"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

const groups = `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 13, canary_count: 1}
      - {name: prod, days: ["*"], start_hour: 15}
`

// secondAct is a fleet, and a release that is stopped at its canary.
func secondAct(ctx context.Context, s *screen) (err error) {
	s.say("The second act: a fleet of three hosts, two in the group dev and one in prod. The server's clock is the demo's, so that hours pass at once.")
	f, err := fleet.NewAt(ctx, noon(time.Now()))
	defer func() { err = errors.Join(err, f.Close()) }()
	if err != nil {
		return err
	}
	d := &act{Fleet: f, screen: s, ctx: ctx}
	for _, step := range []func() error{d.begin, d.breaks, d.look} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// noon is the server's time at the begin of the act, today.
func noon(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(12 * time.Hour) }

type act struct {
	*fleet.Fleet
	*screen
	ctx context.Context
}

func (d *act) begin() error {
	if err := d.Release(release.Spec{Version: "1.0.0"}); err != nil {
		return err
	}
	fmt.Fprintf(d, "\n  root@find # cat groups.yaml\n")
	d.indented().Write([]byte(groups))
	if err := d.find(groups, "apply", "-f", "groups.yaml"); err != nil {
		return err
	}
	if err := d.find("", "set-version", "1.0.0", "--schedule", "immediate"); err != nil {
		return err
	}
	d.say("Hosts report with a secret of their own, which they get by a join token.")
	token, err := d.Find(d.ctx, "", "token", "add", "fleet")
	if err != nil {
		return err
	}
	fmt.Fprintf(d, "\n  root@find # teleport-find token add fleet > report-token\n  root@each # teleport-update enable --group GROUP --report-token-file report-token …\n")
	errs := make([]error, 3)
	var all sync.WaitGroup
	for i, group := range []string{"dev", "dev", "prod"} {
		h, err := d.Add(d.ctx, group)
		if err != nil {
			return err
		}
		all.Go(func() { errs[i] = h.Enable(d.ctx, strings.TrimSpace(token)) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// The server waits until all hosts have had time to report.
	if _, err := d.Pass(d.ctx, 30*time.Minute); err != nil {
		return err
	}
	return d.find("", "hosts")
}

func (d *act) breaks() error {
	d.say("The next release, 1.1.0, exits when it starts. Nobody knows yet.")
	if err := d.Release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart}); err != nil {
		return err
	}
	if err := d.find("", "set-version", "1.1.0"); err != nil {
		return err
	}
	d.say("It is 13:00. One host of dev is picked as the canary; all three look.")
	if _, err := d.Pass(d.ctx, noon(d.Now()).Add(time.Hour).Sub(d.Now())); err != nil {
		return err
	}
	_, err := d.Pass(d.ctx, fleet.Poll)
	return err
}

func (d *act) look() error {
	d.say("The canary has put 1.0.0 back and said so. Its group is halted, and nobody else is told to update.")
	if err := d.find("", "status"); err != nil {
		return err
	}
	o, err := d.Status(d.ctx)
	if err != nil {
		return err
	}
	if o.Word != "halted" {
		return fmt.Errorf("the rollout is %s, not halted: %s", o.Word, o.Sentence)
	}
	d.say("Hours later all hosts run what they ran before.")
	if err := d.Jump(d.Now().Add(3 * time.Hour)); err != nil {
		return err
	}
	if _, err := d.Pass(d.ctx, 2*fleet.Poll); err != nil {
		return err
	}
	for _, h := range d.Hosts {
		fmt.Fprintf(d, "\n  root@%s # readlink /usr/local/bin/teleport\n", h.Group)
		r, err := h.RunCommand(d.ctx, host.Command{Args: []string{"readlink", "/usr/local/bin/teleport"}, Output: d.indented()})
		if err == nil && r.Code == 0 {
			err = h.Serves(d.ctx, "1.0.0")
		}
		if err != nil {
			return err
		}
	}
	d.say("Why does the host of prod stay as it is? And who has done what?")
	id, err := d.Hosts[2].ID()
	if err != nil {
		return err
	}
	if err := d.find("", "hosts", id); err != nil {
		return err
	}
	return d.find("", "history")
}

// find shows a command of the server's.
func (d *act) find(input string, args ...string) error {
	fmt.Fprintf(d, "\n  root@find # teleport-find %s\n", strings.Join(quoted(args), " "))
	for i, arg := range args {
		if arg == "groups.yaml" {
			args[i] = "-"
		}
	}
	out, err := d.Find(d.ctx, input, args...)
	d.indented().Write([]byte(out))
	return err
}
