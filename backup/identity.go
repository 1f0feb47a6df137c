package backup

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"regexp"
	"sync"

	"github.com/ncruces/go-sqlite3"
)

// errNoIdentity is a database of an agent that has not joined a cluster, or that
// keeps its identity where this program does not look.
var errNoIdentity = errors.New("it names no host and no cluster")

// maxIdentity is far above what the agent stores of one identity, in bytes.
const maxIdentity = 1 << 20

// hostAndCluster is the name in a certificate of an agent: its host's UUID, and the
// cluster that it joined. It is compiled where it is needed: each run of the timer would do it.
var hostAndCluster = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\..+$`)
})

// identified is who an agent is by its database.
type identified struct {
	name         string // of the host and the cluster that its certificates were issued for
	certificates [sha256.Size]byte
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
		if err != nil || !hostAndCluster().MatchString(cert.Subject.CommonName) || found.name != "" && found.name != cert.Subject.CommonName {
			return identified{}, errNoIdentity
		}
		found.name = cert.Subject.CommonName
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

// namesWith are the host and the cluster that a copy and the agent's database of today were
// certified for. ok is false where one of the two names none, or cannot be read.
func (d *Database) namesWith(ctx context.Context, copied string) (then, now string, ok bool) {
	src, err := d.source()
	if err != nil {
		return "", "", false
	}
	live, err := query(ctx, src, identity)
	if err != nil {
		return "", "", false
	}
	copy, err := settled(ctx, copied, identity)
	return copy.name, live.name, err == nil
}
