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
	"teleport-update/tools/internal/site"
)

func main() {
	acts := flag.Int("acts", 2, "how many acts; the second is the fleet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *acts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, acts int) (err error) {
	say("Installing what hosts need, and building teleport-update, teleport-find and a stand-in agent.")
	if err := site.Prepare(ctx); err != nil {
		return err
	}
	say("Booting a host: Debian 12 with systemd in a container of its own.")
	d := &demo{ctx: ctx}
	if d.Site, err = site.New(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.story(); err != nil {
		return err
	}
	if acts > 1 {
		if err := secondAct(ctx); err != nil {
			return err
		}
	}
	say("Done. The hosts are gone; nothing was left on this machine but the build folder.")
	return nil
}

// demo is one host and its find server.
type demo struct {
	*site.Site
	ctx context.Context
}

func (d *demo) story() error {
	steps := []func() error{
		func() error {
			say("The cluster: teleport-find serves one release, 1.0.0, and so wants that one.")
			if err := d.release("1.0.0", stamp.Sound); err != nil {
				return err
			}
			return d.startFind()
		},
		func() error {
			say("A newcomer enables updates. The proxy comes from /etc/teleport.yaml. The short health window is for this demo.")
			return d.show(0, "teleport-update", "enable", "--health-window", "5s", "--template", site.Template)
		},
		func() error {
			say("The agent is installed but was never started: that is the newcomer's to do.")
			if err := d.show(0, "systemctl", "enable", "--now", "teleport"); err != nil {
				return err
			}
			return d.look()
		},
		func() error {
			say("The cluster goes to 1.1.0. The timer would see it within ten minutes; here its unit is started by hand.")
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
			say("The cluster goes to 1.2.0, which is broken: it exits when it starts.")
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
			say("Why is this host not on 1.2.0? As text for a person, as JSON for support and monitoring.")
			if err := d.show(0, "teleport-update", "status", "--format", "text"); err != nil {
				return err
			}
			return d.show(0, "teleport-update", "status", "--format", "json")
		},
		func() error {
			say("The timer's next run leaves 1.2.0 alone until its next attempt is due.")
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
	fmt.Println("  # teleport-find serve --releases releases --admin-socket find.sock")
	return d.StartFind(d.ctx)
}

// announce makes find want a version.
func (d *demo) announce(v string) error {
	fmt.Printf("  # teleport-find set-version %s --admin-socket find.sock\n", v)
	return d.Announce(d.ctx, v)
}

// show runs a command in the host as a person would see it, and insists on its
// exit code.
func (d *demo) show(code int, args ...string) error {
	fmt.Printf("\n  root@host # %s\n", strings.Join(quoted(args), " "))
	r, err := d.Host.RunCommand(d.ctx, host.Command{Args: args, Output: &indented{out: os.Stdout}})
	if err != nil {
		return err
	}
	if r.Code != 0 {
		fmt.Printf("  (exit code %d)\n", r.Code)
	}
	if r.Code != code {
		return fmt.Errorf("%s ended with exit code %d, not %d", args[0], r.Code, code)
	}
	return nil
}

func say(text string) { fmt.Printf("\n== %s\n", text) }

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

// indented sets a command's output off from what the demo says.
type indented struct {
	out    *os.File
	inLine bool
}

func (w *indented) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if !w.inLine {
			line = "    " + line
		}
		if _, err := w.out.WriteString(line); err != nil {
			return 0, err
		}
		w.inLine = !strings.HasSuffix(line, "\n")
	}
	return len(p), nil
}
