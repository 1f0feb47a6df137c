package backup

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
)

// errNoIdentity is a database of an agent that has not joined a cluster, or that
// keeps its identity where this program does not look.
var errNoIdentity = errors.New("it names no host and no cluster")

// maxIdentity is far above what the agent stores of one identity, in bytes.
const maxIdentity = 1 << 20

// hostAndCluster is the name in a certificate of an agent: its host's id, and the cluster that it
// joined. The id is a UUID, or ACCOUNT-INSTANCE of a host that joined with the method ec2. It is
// compiled where it is needed: each run of the timer would do it.
var hostAndCluster = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]{12}-i-[0-9a-f]{8,17})\.[!-~]+$`)
})

// identified is who an agent is by its database.
type identified struct {
	name string // that its certificates were issued for, in printable ASCII
	// ofHost: the name has a form that Teleport gives to one host in one cluster. Any two names that differ
	// are of two hosts, whatever their form; the same one is proof of the same host only in that form.
	ofHost       bool
	certificates [sha256.Size]byte
}

// readable reports whether a name can be told, and compared.
func readable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

// identity reads the certificates in an agent's database. All of them must say the same.
func identity(c *sqlite3.Conn) (found identified, err error) {
	stmt, _, err := c.Prepare(`SELECT value FROM kv WHERE key GLOB '/ids/*/current' ORDER BY key`)
	if err != nil {
		return found, errNoIdentity
	}
	defer stmt.Close()
	sum := sha256.New()
	for stmt.Step() {
		var stored struct {
			Spec struct {
				TLSCert []byte `json:"tls_cert"`
			} `json:"spec"`
		}
		value := stmt.ColumnRawBlob(0)
		if len(value) > maxIdentity || json.Unmarshal(value, &stored) != nil {
			return identified{}, errNoIdentity
		}
		block, _ := pem.Decode(stored.Spec.TLSCert)
		if block == nil {
			return identified{}, errNoIdentity
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return identified{}, errNoIdentity
		}
		name := cert.Subject.CommonName
		if !readable(name) || found.name != "" && found.name != name {
			return identified{}, errNoIdentity
		}
		found.name, found.ofHost = name, hostAndCluster().MatchString(name)
		sum.Write(cert.Raw)
	}
	if err := stmt.Err(); err != nil {
		return identified{}, err
	}
	if found.name == "" {
		return identified{}, errNoIdentity
	}
	sum.Sum(found.certificates[:0])
	return found, nil
}

// identitiesWith are those of a copy and of the agent's database of today. ok is false where one of the
// two has none, or cannot be read.
func (d *Database) identitiesWith(ctx context.Context, copied string) (then, now identified, ok bool) {
	src, err := d.source()
	if err != nil {
		return then, now, false
	}
	if now, err = query(ctx, src, identity); err != nil {
		return then, now, false
	}
	then, err = settled(ctx, copied, identity)
	return then, now, err == nil
}
