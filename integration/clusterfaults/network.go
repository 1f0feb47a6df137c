//go:build hosts

package clusterfaults

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// servers is how many find servers there are, databases how many databases.
const (
	servers   = 3
	databases = 2
)

// network is a namespace for each database, a link from each find server to each of them, and one between them: each can be
// cut by itself. The find servers are in the namespace of the test.
type network struct {
	t    testing.TB
	name string
	net  int // the second number of the addresses
}

func newNetwork(t testing.TB, number int) *network {
	// Worlds of one process have other names and other addresses.
	n := &network{t: t, name: fmt.Sprintf("cf%d%c", os.Getpid()%100_000, 'a'+number), net: 100 + (os.Getpid()+number)%100}
	for d := range databases {
		n.ip("netns", "add", n.namespace(d))
		t.Cleanup(func() { exec.Command("ip", "netns", "del", n.namespace(d)).Run() })
		n.inside(d, "link", "set", "lo", "up")
		for s := range servers {
			n.ip("link", "add", n.link(s, d), "type", "veth", "peer", "name", n.inner(s), "netns", n.namespace(d))
			n.ip("addr", "add", n.address(s, d, 1)+"/24", "dev", n.link(s, d))
			n.inside(d, "addr", "add", n.address(s, d, 2)+"/24", "dev", n.inner(s))
			n.ip("link", "set", n.link(s, d), "up")
			n.inside(d, "link", "set", n.inner(s), "up")
		}
	}
	n.inside(0, "link", "add", "peer", "type", "veth", "peer", "name", "peer", "netns", n.namespace(1))
	for d := range databases {
		n.inside(d, "addr", "add", n.peer(d)+"/24", "dev", "peer")
		n.inside(d, "link", "set", "peer", "up")
	}
	return n
}

func (n *network) namespace(d int) string { return fmt.Sprintf("%s-%d", n.name, d) }
func (n *network) link(s, d int) string   { return fmt.Sprintf("%s-%d%d", n.name, s, d) }
func (n *network) inner(s int) string     { return fmt.Sprintf("find%d", s) }
func (n *network) peer(d int) string      { return fmt.Sprintf("10.%d.99.%d", n.net, d+1) }

// address is that of an end of the link between a server and a database.
func (n *network) address(s, d, end int) string {
	return fmt.Sprintf("10.%d.%d.%d", n.net, 10*d+s, end)
}

// addresses are all that a database is reached by.
func (n *network) addresses(d int) (all []string) {
	for s := range servers {
		all = append(all, n.address(s, d, 2))
	}
	return append(all, n.peer(d))
}

// cut takes a link between a server and a database down or up again, without a word to either end.
func (n *network) cut(s, d int, down bool) { n.inside(d, "link", "set", n.inner(s), upDown(down)) }

// part cuts the databases off from one another.
func (n *network) part(down bool) { n.inside(0, "link", "set", "peer", upDown(down)) }

func upDown(down bool) string {
	if down {
		return "down"
	}
	return "up"
}

func (n *network) inside(d int, args ...string) {
	n.ip(append([]string{"-n", n.namespace(d)}, args...)...)
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
