//go:build hosts

package clusterfaults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres/pgtest"
)

// diskSize is that of the disk of a database, a tmpfs.
const diskSize = "size=160m"

// cluster is a primary and an asynchronous standby, each on a disk and in a network of its own.
type cluster struct {
	t       testing.TB
	net     *network
	dir     string
	primary int // which of them it is
	node    [databases]*pgtest.Server
	slow    chan struct{}
	// failovers is how many epochs have begun.
	failovers int
}

func newCluster(t testing.TB, n *network, dir string) *cluster {
	c := &cluster{t: t, net: n, dir: dir}
	for d := range databases {
		disk := c.disk(d)
		if err := os.Mkdir(disk, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", disk, "tmpfs", 0, diskSize); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	}
	c.certificates()
	c.node[0] = pgtest.StartAt(t, c.place(0))
	return c
}

func (c *cluster) disk(d int) string { return filepath.Join(c.dir, fmt.Sprint("disk", d)) }

func (c *cluster) place(d int) pgtest.Place {
	return pgtest.Place{
		Dir: c.disk(d), Namespace: "/run/netns/" + c.net.namespace(d), Host: c.net.peer(d),
		Settings: []string{
			"listen_addresses = '*'", "ssl = on", "ssl_cert_file = '" + c.file("db.pem") + "'", "ssl_key_file = '" + c.file("db.key") + "'",
			"wal_keep_size = 16", "max_wal_size = 32MB", "min_wal_size = 2MB", "wal_sender_timeout = 10s", "wal_receiver_timeout = 10s",
			"synchronous_commit = on", "primary_slot_name = ''",
		},
	}
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

// certificates makes an authority, and a certificate for all addresses of both databases.
func (c *cluster) certificates() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "databases of a test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for d := range databases {
		for _, address := range c.net.addresses(d) {
			template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"db.pem": {Type: "CERTIFICATE", Bytes: cert}, "db.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(c.file(name), pem.EncodeToMemory(block), 0o600); err != nil {
			c.t.Fatal(err)
		}
		if err := pgtest.Own(c.file(name)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// address is the store of a server.
func (c *cluster) address(s int) string {
	one, other := c.net.address(s, 0, 2), c.net.address(s, 1, 2)
	return fmt.Sprintf("postgres://postgres@%s,%s/find?sslrootcert=%s&connect_timeout=2", one, other, c.authority())
}

func (c *cluster) authority() string { return c.file("ca.pem") }

// begin makes the database of the store, whose clock is that of a file: unqualified names are looked up in a schema that has
// a clock_timestamp of its own.
func (c *cluster) begin(clock string) {
	data, err := os.ReadFile(c.file("db.pem"))
	if err == nil {
		err = os.WriteFile(c.authority(), data, 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	p := c.node[c.primary]
	p.Database("find")
	p.SQL("find", `CREATE SCHEMA fast;
		CREATE FUNCTION fast.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
			AS $$ SELECT trim(pg_read_file('`+clock+`'))::timestamptz $$;
		ALTER DATABASE find SET search_path = fast, pg_catalog, public`)
	c.follow()
}

// follow makes the other database a standby of the primary, in the place of what it was.
func (c *cluster) follow() {
	other := 1 - c.primary
	if old := c.node[other]; old != nil {
		old.Remove()
	}
	c.node[other] = c.node[c.primary].StandbyAt(c.place(other))
}

// failOver promotes the standby. What the primary has acknowledged since the databases were parted is lost.
func (c *cluster) failOver() {
	c.node[c.primary].Kill()
	c.node[1-c.primary].Promote()
	c.primary = 1 - c.primary
	c.net.part(false)
	c.follow()
}

// fill leaves no room on the disk of the primary.
func (c *cluster) fill() {
	f, err := os.Create(filepath.Join(c.disk(c.primary), "filler"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
}

// drain makes room again. The database may have ended for want of it.
func (c *cluster) drain() {
	os.Remove(filepath.Join(c.disk(c.primary), "filler"))
	time.Sleep(100 * time.Millisecond)
	if !c.node[c.primary].Alive() {
		c.node[c.primary].Boot()
	}
}

// slowDown has the primary run for a fifth of the time, until speedUp.
func (c *cluster) slowDown() {
	c.slow = make(chan struct{})
	go func(p *pgtest.Server, stop chan struct{}) {
		for {
			p.Signal(syscall.SIGSTOP)
			time.Sleep(40 * time.Millisecond)
			p.Signal(syscall.SIGCONT)
			select {
			case <-stop:
				stop <- struct{}{}
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}(c.node[c.primary], c.slow)
}

func (c *cluster) speedUp() {
	c.slow <- struct{}{}
	<-c.slow
}

// epochs are those of the store's revisions, of the first one and after each failover of its history, and that of now.
func (c *cluster) epochs() (all []store.Revision, now store.Revision) {
	out := c.node[c.primary].SQL("find", `SELECT to_revision FROM teleport_find.history WHERE key = 'database' ORDER BY number;
		SELECT revision FROM teleport_find.head`)
	all = []store.Revision{0}
	for _, word := range strings.Fields(out) {
		var at store.Revision
		fmt.Sscan(word, &at)
		all = append(all, at/store.EpochStep)
	}
	return all[:len(all)-1], all[len(all)-1]
}
