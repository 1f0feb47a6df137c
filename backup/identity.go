package backup

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/internal/folder"
	"teleport-update/internal/regular"
)

// errNoIdentity means that the agent of a database has not joined a cluster, or keeps its identity in an unknown place.
var errNoIdentity = errors.New("it names no host and no cluster")

// hostIDName is the file in which the agent keeps the id of its host.
const hostIDName = "host_uuid"

// maxIdentity is far above the size of one stored identity of the agent, in bytes.
const maxIdentity = 1 << 20

// hostAndCluster matches the name in a certificate of an agent: its host's id, and the cluster that it joined. The id is a UUID, or
// ACCOUNT-INSTANCE for a host that joined with the method ec2. It is compiled only when it is needed: else each run of the timer would do
// it.
var hostAndCluster = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]{12}-i-[0-9a-f]{8,17})\.[!-~]+$`)
})

// identified is the identity of an agent in its database.
type identified struct {
	name string // in its certificates, in printable ASCII
	// ofHost: the name has a form that Teleport gives to one host in one cluster. Two different names belong to two hosts, whatever their
	// form; two equal names prove the same host only in that form.
	ofHost       bool
	certificates [sha256.Size]byte
	none         bool // the database was read, and names nobody
}

// readable reports whether a name can be printed and compared.
func readable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

// identity reads the certificates in an agent's database. All of them must have the same name.
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

// identitiesWith returns the identities of a copy and of the agent's current database. Each is the zero value if the database has no
// identity, or cannot be read.
func (d *Database) identitiesWith(ctx context.Context, copied string) (then, now identified, err error) {
	then, err = settled(ctx, copied, identity)
	then.none = errors.Is(err, errNoIdentity)
	if src, err := d.source(); err == nil {
		now, _ = query(ctx, src, identity)
	}
	if ctx.Err() != nil {
		return then, now, context.Cause(ctx)
	}
	return then, now, nil
}

// maxHostID is more than an agent writes into host_uuid, in bytes.
const maxHostID = 256

// checkHostID returns an error unless the agent's host_uuid names the host of an identity. It is for an agent whose database names no host,
// as before it has joined. The file belongs to the agent's user, so it can only give a reason to refuse.
func (d *Database) checkHostID(who identified) error {
	dir, err := folder.Open(d.dataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	data, err := regular.Read(dir.At(hostIDName), maxHostID, regular.NoLink)
	if err != nil {
		return errors.New(dir.Explain(err.Error()))
	}
	if id := strings.TrimSpace(string(data)); id == "" || !strings.HasPrefix(who.name, id+".") {
		return fmt.Errorf("%s names another host", filepath.Join(d.dataDir, hostIDName))
	}
	return nil
}
