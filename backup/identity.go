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

// errNoIdentity is a database of an agent that has not joined a cluster, or that
// keeps its identity where this program does not look.
var errNoIdentity = errors.New("it names no host and no cluster")

// hostIDName is the file in which the agent keeps the id of its host.
const hostIDName = "host_uuid"

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
	none         bool // the database was read, and names nobody
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

// identitiesWith are those of a copy and of the agent's database of today. Each is the zero value if the
// database has none, or cannot be read.
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

// checkHostID returns an error unless the agent's host_uuid names the host of an identity. It is for an
// agent whose database names no host, as before it has joined. The file is the agent's user's, so it is
// asked only for a reason to refuse.
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
