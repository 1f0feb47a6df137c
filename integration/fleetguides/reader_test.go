//go:build hosts

package fleetguides

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/markdown"
)

// reader is somebody who does what a page says, on its hosts.
type reader struct {
	t       *testing.T
	network *host.Segment
	hosts   map[string]*host.Test
	on      string              // the host of the blocks that come
	seen    string              // what the last block of commands printed
	hurried map[*host.Test]bool // hosts whose updates take less time than those of people
	clock   *clock              // of the page's find server; nil: that of the machine
}

// common are what every host of a page has.
var common = []string{"curl", "jq", "openssl", "openssh-server", "rsync"}

func newReader(t *testing.T, p page) *reader {
	t.Helper()
	network, err := host.NewSegment(t.Context())
	check(t, err)
	t.Cleanup(func() { network.Close() })
	r := &reader{t: t, network: network, hosts: map[string]*host.Test{}, hurried: map[*host.Test]bool{}, on: p.hosts[0].name}
	names := "127.0.0.1 localhost\n"
	for i, m := range p.hosts {
		names += fmt.Sprintf("192.0.2.%d %s %s\n", i+11, m.name, short(m.name))
	}
	for i, m := range p.hosts {
		h := host.ForTest(t, host.Options{Packages: slices.Concat(common, m.packages)})
		check(t, network.Join(t.Context(), h.Host, fmt.Sprintf("192.0.2.%d/24", i+11)))
		h.Must("hostname", short(m.name))
		h.Must("mkdir", "-p", "-m", "0700", "/root/.ssh")
		h.Write("/etc/hosts", names)
		r.packages(h)
		r.hosts[m.name] = h
	}
	r.introduce()
	return r
}

func short(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// packages puts those of both programs into the folder that people are in.
func (r *reader) packages(h *host.Test) {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(packages(r.t), "*.deb"))
	check(r.t, err)
	for _, file := range files {
		check(r.t, h.CopyIn(file, "/root/"+filepath.Base(file), 0o644))
	}
}

// introduce lets people get from each of their machines to the others.
func (r *reader) introduce() {
	r.t.Helper()
	var secret, public string
	for _, h := range r.hosts {
		if secret == "" {
			h.Must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/.ssh/id_ed25519")
			secret, public = h.Read("/root/.ssh/id_ed25519"), h.Read("/root/.ssh/id_ed25519.pub")
		}
		check(r.t, h.WriteFile("/root/.ssh/id_ed25519", []byte(secret), 0o600))
		check(r.t, h.WriteFile("/root/.ssh/authorized_keys", []byte(public), 0o600))
		h.Write("/etc/ssh/ssh_config.d/test.conf", "StrictHostKeyChecking accept-new\nLogLevel ERROR\n")
	}
}

// blockLimit is how long a block of commands may take, on a slow machine.
const blockLimit = 15 * time.Minute

// block does what a block says.
func (r *reader) block(b markdown.Block, terminal bool) {
	r.t.Helper()
	if name, ok := b.Mark("on"); ok {
		if r.hosts[name] == nil {
			r.t.Fatalf("%s: the page has no host %s", b, name)
		}
		r.on = name
	}
	h := r.hosts[r.on]
	if name, ok := b.Mark("file"); ok {
		h.Write(name, b.Text)
	}
	if name, ok := b.Mark("appended to"); ok {
		h.Write(name, h.Read(name)+b.Text)
	}
	if later, ok := b.Mark("later"); ok {
		d, err := time.ParseDuration(later)
		check(r.t, err)
		r.pass(d)
	}
	if !b.IsRun() {
		return
	}
	// People take longer: systemd does not find a service started too often.
	h.Try("systemctl", "reset-failed")
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), blockLimit, fmt.Errorf("%s does not end", b))
	defer cancel()
	text := strings.ReplaceAll(b.Text, "amd64.deb", runtime.GOARCH+".deb")
	c := host.Command{Args: []string{"sh", "-euc", "cd /root\n" + text}, Env: []string{"SYSTEMD_PAGER=cat", "PAGER=cat", "DEBIAN_FRONTEND=noninteractive"}}
	if terminal {
		c = markdown.OnTerminal(c)
	}
	got, err := h.RunCommand(ctx, c)
	check(r.t, err)
	r.seen = got.Stdout
	r.t.Logf("%s prints\n%s%s", b, markdown.OnScreen(got.Stdout), got.Stderr)
	if _, silent := b.Mark("silent"); silent && got.Stdout+got.Stderr != "" {
		r.t.Errorf("%s prints\n%s%s", b, got.Stdout, got.Stderr)
	}
	if got.Code != 0 {
		r.t.Fatalf("%s: exit code %d\n%s\n%s%s", b, got.Code, b.Text, got.Stdout, got.Stderr)
	}
}

// compare holds what a page shows to what the commands before it printed.
func (r *reader) compare(b markdown.Block) {
	r.t.Helper()
	screen := markdown.OnScreen(r.seen)
	if problem := markdown.Unlike(b.Text, screen); problem != "" {
		r.t.Errorf("%s: %s; on the screen was\n%s", b, problem, screen)
	}
}
