package transaction

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
	"teleport-update/internal/failure"
)

// An agent's database names its host and its cluster. For what a backup is refused then is tested in the package backup.
// Here it is seen who has that looked at, and who must not.

const (
	thisHost     = "11111111-2222-3333-4444-555555555555.root"
	anotherHost  = "aaaaaaaa-2222-3333-4444-555555555555.root"
	otherCluster = "11111111-2222-3333-4444-555555555555.leaf"
)

// otherHosts are whom a backup names on thisHost.
var otherHosts = map[string]struct{ then, says string }{ // says: why it is refused; empty if it is not
	"the same host":                     {thisHost, ""},
	"another host":                      {anotherHost, "has the identity " + anotherHost + ", and this host's agent is " + thisHost + " now"},
	"the same host, in another cluster": {otherCluster, "has the identity " + otherCluster},
	"nobody, for it had not joined":     {"", "names no host and no cluster"},
}

// join puts a certificate where the agent keeps its own; with no name it has none yet. The tables are the same either way.
func (m *model) join(name string) {
	m.t.Helper()
	m.exec("CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value BLOB); DELETE FROM kv")
	if name == "" {
		return
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must(m.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	must(m.t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	value := fmt.Sprintf(`{"spec": {"tls_cert": %q}}`, base64.StdEncoding.EncodeToString(cert))
	m.exec(fmt.Sprintf("INSERT INTO kv VALUES ('/ids/node/current', x'%x'), ('/named', '%s')", value, name))
}

// isStill asserts who the agent is by its database.
func (m *model) isStill(name string) {
	m.t.Helper()
	c, err := sqlite3.OpenFlags(m.db, sqlite3.OPEN_READONLY)
	must(m.t, err)
	defer c.Close()
	stmt, _, err := c.Prepare("SELECT value FROM kv WHERE key = '/named'")
	must(m.t, err)
	defer stmt.Close()
	if stmt.Step(); stmt.ColumnText(0) != name {
		m.t.Errorf("by its database the agent is %q; want %q", stmt.ColumnText(0), name)
	}
}

// turned is thisHost on 1.1.0, which is to go back to 1.0.0 and the database that this one was left with, as somebody else.
func turned(t *testing.T, b behaviour, then string) *model {
	t.Helper()
	m := upgrade(t, b)
	m.join(then)
	must(t, m.do(Update))
	m.join(thisHost)
	m.from, m.to, m.calls = m.to, m.from, nil
	return m
}

// refusedAsIs asserts that what is done is refused, and that nothing was done.
func (m *model) refusedAsIs(does func() error, says string) {
	m.t.Helper()
	serves, files := m.main, m.allFiles()
	if err := does(); !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), says) {
		m.t.Errorf("it ends with %v; want a refusal with %q", err, says)
	}
	if m.main != serves || !maps.Equal(m.allFiles(), files) {
		m.t.Errorf("something was changed; the agent is %+v; calls: %q", m.main, m.calls)
	}
	m.endsOn("1.1.0")
}

// An update, and a rollback that is forced, can do without the database that the version was left with, and go on with today's.
func TestAVersionDoesNotGoBackToTheDatabaseOfAnotherHost(t *testing.T) {
	for name, tc := range otherHosts {
		for _, asked := range []Request{{Kind: Downgrade}, {Kind: Rollback}, {Kind: Rollback, Force: true}, {Kind: Update}} {
			t.Run(fmt.Sprintf("%s, forced: %v, to %s", asked.Kind, asked.Force, name), func(t *testing.T) {
				leaves := twoHolds
				if asked.Force {
					leaves = one // which 1.0.0 can go on with
				}
				m := turned(t, leaves, tc.then)
				if asked.Kind == Update { // 1.1.0 is left as well
					m.join(tc.then)
					must(t, m.do(Downgrade))
					m.join(thisHost)
					m.from, m.to = m.to, m.from
				}
				m.write()
				written, request := len(m.rows), m.request(asked.Kind)
				request.Force = asked.Force
				change := func() error { err, _ := m.runs(func() error { return m.transact(t.Context(), request) }); return err }
				if tc.says != "" && !asked.Force && asked.Kind != Update {
					m.refusedAsIs(change, tc.says)
				} else {
					must(t, errors.Join(change(), m.sound()))
					if restored := !slices.Contains(m.seen.rows, written); !m.committedOn(m.to) || restored != (tc.says == "") {
						t.Errorf("%s is active: %v; its own database is back: %v", m.to.Version, m.committedOn(m.to), restored)
					}
				}
				m.isStill(thisHost)
			})
		}
	}
}

// A version that failed may have joined anew, or have lost the certificates: that is what is undone, and must not keep the host on it.
func TestAnUndoingRestoresItsOwnBackupWhoeverTheAgentIsNow(t *testing.T) {
	for _, kind := range []Kind{Update, Downgrade} {
		for _, now := range []string{anotherHost, otherCluster, ""} {
			for _, how := range []string{"at once", "at boot", "after a closer look"} {
				t.Run(fmt.Sprintf("%s, now %q, %s", kind, now, how), func(t *testing.T) {
					m := turned(t, twoHolds, thisHost)
					if kind == Update {
						m = upgrade(t, twoHolds)
						m.join(thisHost)
					}
					m.versions[m.to.Version] = behaviour{schema: m.versions[m.to.Version].schema, fate: neverReady}
					m.cut("watch", 1, false)
					if err, dead := m.runs(func() error { return m.transact(t.Context(), m.request(kind)) }); !dead {
						t.Fatalf("it was not killed: %v", err)
					}
					m.dropHooks()
					m.join(now)
					if how == "at boot" {
						m.reboot()
					} else if how == "after a closer look" { // that a run has after one which found something in the way
						must(t, os.Chmod(filepath.Join(m.Host.Paths.Versions(), m.from.Version, "bin", "teleport"), 0))
						m.offline = true
						err, _ := m.tick()
						m.needsPerson(err, "no program to execute")
						m.offline = false
					}
					err, _ := m.tick()
					must(t, err)
					m.endsOn(m.from.Version)
					m.isStill(thisHost)
				})
			}
		}
	}
}

// What is kept of an uninstall that leaves the agent is what this host could go back to, though a backup of another one is newer.
func TestAnUninstallKeepsABackupOfThisHostBehindOneOfAnother(t *testing.T) {
	m := firstEnable(t, holds)
	m.join(thisHost)
	older := filepath.Join(t.TempDir(), "backup")
	db, err := backup.Open(m.db)
	must(t, err)
	defer db.Close()
	_, err = db.Take(t.Context(), backup.TakeRequest{Dir: older, Meta: backup.Meta{Proxy: "proxy", Created: m.Now().Add(-time.Hour)}})
	must(t, err)
	m.join(anotherHost)
	must(t, m.transact(t.Context(), m.firstRequest()))
	m.join(thisHost)
	dir := filepath.Join(m.Host.Paths.Versions(), "1.0.5")
	must(t, errors.Join(os.Mkdir(dir, 0o755), os.Rename(older, filepath.Join(dir, "backup"))))
	err, _ = m.leave(false)
	must(t, err)
	var names []string
	kept, _ := filepath.Glob(filepath.Join(m.Host.Paths.KeptBackups(), "*"))
	for _, dir := range kept {
		name, err := backup.NameOf(t.Context(), dir)
		must(t, err)
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{thisHost, anotherHost}) {
		t.Errorf("kept are backups of %q", names)
	}
}
