// Command demo shows teleport-update at work on a real host: it builds the
// programs and three releases, starts teleport-find, boots a disposable host
// with systemd, and runs the commands an operator would run, with their real
// output; then three more hosts, which a rollout keeps from a broken release. It
// needs root, and installs what it needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/console"
	"teleport-update/packaging"
	"teleport-update/tools/internal/site"
)

func main() {
	acts := flag.Int("acts", 2, "how many acts; the second is the fleet")
	plain := flag.Bool("plain", false, "show the acts alone, to be recorded: no plan, no progress")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, min(max(*acts, 1), 2), *plain)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, acts int, plain bool) (err error) {
	version, _, err := packaging.Commit(ctx, ".")
	if err != nil {
		return err
	}
	if err := stamped(version); err != nil {
		return err
	}
	s := &screen{Output: console.To(os.Stdout), chapters: chapters(acts), plain: plain}
	defer s.stop()
	if !plain {
		s.announce(version)
	}
	s.chapter()
	s.say("Installing what hosts need, and building teleport-update, teleport-find and a stand-in agent.")
	if err := site.Prepare(ctx); err != nil {
		return err
	}
	s.chapter()
	s.say("Booting a host: Debian 12 with systemd in a container of its own.")
	d := &demo{screen: s, ctx: ctx}
	if d.Site, err = site.New(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.story(); err != nil {
		return err
	}
	if acts > 1 {
		s.chapter()
		if err := secondAct(ctx, s); err != nil {
			return err
		}
	}
	s.end()
	return nil
}

// demo is one host and its find server.
type demo struct {
	*site.Site
	*screen
	ctx context.Context
}

func (d *demo) story() error {
	steps := []func() error{
		func() error {
			d.say("The cluster: teleport-find serves one release, 1.0.0, and so wants that one.")
			if err := d.release("1.0.0", stamp.Sound); err != nil {
				return err
			}
			return d.startFind()
		},
		func() error {
			d.say("A newcomer enables updates. The proxy comes from /etc/teleport.yaml. The short health window is for this demo.")
			return d.show(0, "teleport-update", "enable", "--health-window", "5s", "--template", site.Template)
		},
		func() error {
			d.say("The agent is installed but was never started: that is the newcomer's to do.")
			if err := d.show(0, "systemctl", "enable", "--now", "teleport"); err != nil {
				return err
			}
			return d.look()
		},
		func() error {
			d.say("The cluster goes to 1.1.0. The timer would see it within ten minutes; here its unit is started by hand.")
			if err := d.release("1.1.0", stamp.Sound); err != nil {
				return err
			}
			if err := d.announce("1.1.0"); err != nil {
				return err
			}
			if err := d.show(0, "systemctl", "start", "teleport-update.service"); err != nil {
				return err
			}
			if err := d.show(0, "journalctl", "-t", "teleport-update", "-n", "8", "-o", "cat", "--no-pager"); err != nil {
				return err
			}
			return d.look()
		},
		func() error {
			d.say("The cluster goes to 1.2.0, which is broken: it exits when it starts.")
			if err := d.release("1.2.0", stamp.ExitsAtStart); err != nil {
				return err
			}
			if err := d.announce("1.2.0"); err != nil {
				return err
			}
			if err := d.show(1, "teleport-update", "update"); err != nil {
				return err
			}
			return d.look()
		},
		func() error {
			d.say("Why is this host not on 1.2.0?")
			return d.show(0, "teleport-update", "status", "--format", "text")
		},
		func() error {
			d.say("The timer's next run leaves 1.2.0 alone until its next attempt is due.")
			return d.show(0, "teleport-update", "update")
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// look shows what the host itself says about its agent.
func (d *demo) look() error {
	if err := d.show(0, "readlink", "/usr/local/bin/teleport"); err != nil {
		return err
	}
	return d.show(0, "systemctl", "show", "teleport", "-p", "ActiveState,SubState,MainPID,NRestarts")
}

func (d *demo) release(v string, variant stamp.Variant) error {
	return d.Release(release.Spec{Version: v, Variant: variant})
}

func (d *demo) startFind() error {
	fmt.Fprintln(d, "  # teleport-find serve --releases releases --admin-socket find.sock")
	return d.StartFind(d.ctx)
}

// announce makes find want a version.
func (d *demo) announce(v string) error {
	fmt.Fprintf(d, "  # teleport-find set-version %s --admin-socket find.sock\n", v)
	return d.Announce(d.ctx, v)
}

// show runs a command in the host as a person would see it, and insists on its
// exit code.
func (d *demo) show(code int, args ...string) error {
	fmt.Fprintf(d, "\n  root@host # %s\n", strings.Join(quoted(args), " "))
	r, err := d.Host.RunCommand(d.ctx, host.Command{Args: args, Output: d.indented()})
	if err != nil {
		return err
	}
	if r.Code != 0 {
		fmt.Fprintf(d, "  (exit code %d)\n", r.Code)
	}
	if r.Code != code {
		return fmt.Errorf("%s ended with exit code %d, not %d", args[0], r.Code, code)
	}
	return nil
}

// quoted makes a command line that can be pasted into a shell.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if out[i] = a; strings.ContainsAny(a, "{} ") {
			out[i] = "'" + a + "'"
		}
	}
	return out
}
