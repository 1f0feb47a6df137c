package backup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"
)

// joined puts the certificate of a host in a cluster where the agent keeps it.
func joined(t *testing.T, db, role, commonName string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: commonName},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	value, err := json.Marshal(map[string]any{
		"kind": "identity", "version": "v2", "metadata": map[string]any{"name": "current"},
		"spec": map[string]any{"key": []byte("planted"), "tls_cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})},
	})
	must(t, err)
	c, err := sqlite3.Open(db)
	must(t, err)
	defer c.Close()
	must(t, c.Exec("CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value BLOB)"))
	stmt, _, err := c.Prepare("INSERT OR REPLACE INTO kv VALUES (?, ?)")
	must(t, err)
	defer stmt.Close()
	must(t, stmt.BindText(1, "/ids/"+role+"/current"))
	must(t, stmt.BindBlob(2, value))
	must(t, stmt.Exec())
}

func TestABackupIsOfTheSameClusterWhereTheDatabaseSaysSo(t *testing.T) {
	const (
		here    = "11111111-2222-3333-4444-555555555555"
		another = "aaaaaaaa-2222-3333-4444-555555555555"
		ec2     = "123456789012-i-0123456789abcdef0"
	)
	for name, tc := range map[string]struct {
		then, now []string // common names
		same      bool
	}{
		"the proxy was renamed":                   {[]string{here + ".root"}, []string{here + ".root"}, true},
		"with several roles":                      {[]string{here + ".root", here + ".root"}, []string{here + ".root"}, true},
		"another cluster":                         {[]string{here + ".root"}, []string{here + ".leaf"}, false},
		"another host":                            {[]string{another + ".root"}, []string{here + ".root"}, false},
		"the proxy was renamed, on EC2":           {[]string{ec2 + ".root"}, []string{ec2 + ".root"}, true},
		"another cluster, on EC2":                 {[]string{ec2 + ".root"}, []string{ec2 + ".leaf"}, false},
		"another instance":                        {[]string{ec2 + ".root"}, []string{"123456789012-i-0fedcba987654321f.root"}, false},
		"another account's instance":              {[]string{ec2 + ".root"}, []string{"210987654321-i-0123456789abcdef0.root"}, false},
		"another way to join":                     {[]string{ec2 + ".root"}, []string{here + ".root"}, false},
		"another name, of a form to come":         {[]string{"azure:one.root"}, []string{"azure:two.root"}, false},
		"never joined":                            {nil, nil, false},
		"joined since":                            {nil, []string{here + ".root"}, false},
		"certificates that contradict each other": {[]string{here + ".root", here + ".leaf"}, []string{here + ".root"}, false},
		"a name that is none of a host":           {[]string{"root"}, []string{"root"}, false},
		"a name that drives a terminal":           {[]string{here + ".\x1b[2J"}, []string{another + ".\x1b[2J"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 3, 1)
			roles := []string{"node", "instance"}
			for n, cn := range tc.then {
				joined(t, h.db, roles[n], cn)
			}
			h.take(t, "15.1.0")
			for n, cn := range tc.now {
				joined(t, h.db, roles[n], cn)
			}
			live, err := Open(h.db)
			must(t, err)
			defer live.Close()
			w := wantOf("15.1.0")
			w.Proxy, w.Live = "renamed.example.com", live
			err = Check(t.Context(), h.dir, w)
			if tc.same {
				must(t, err)
				// All other reasons hold.
				w.Version = "15.2.0"
				wantInvalid(t, Check(t.Context(), h.dir, w), OtherVersion)
				return
			}
			wantInvalid(t, err, OtherProxy)
			// Of the proxy that is wanted, what names another host is refused all the same, and so is what names none: the
			// agent, which has joined since, would have to join again.
			w = wantOf("15.1.0")
			w.Live = live
			err = Check(t.Context(), h.dir, w)
			if strings.HasPrefix(name, "another ") || name == "joined since" {
				wantInvalid(t, err, OtherHost)
			} else {
				must(t, err)
			}
		})
	}
}

// A copy of a machine begins with an empty database, and with a host_uuid of its own. An identity must not come to
// it from a backup that was copied along.
func TestAnAgentThatHasNotJoinedGetsOnlyAnIdentityOfItsHost(t *testing.T) {
	const (
		here    = "11111111-2222-3333-4444-555555555555"
		another = "aaaaaaaa-2222-3333-4444-555555555555"
		ec2     = "123456789012-i-0123456789abcdef0"
	)
	write := func(content string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(content), 0o600)) }
	}
	for name, tc := range map[string]struct {
		then   string // the host in the backup; empty if it had not joined
		hostID func(t *testing.T, path string)
		live   string // run on the database of today
		refuse string
	}{
		"the same host":                    {here, write(here + "\n"), "DELETE FROM kv", ""},
		"the same instance":                {ec2, write(ec2), "DELETE FROM kv", ""},
		"another host":                     {another, write(here), "DELETE FROM kv", "names another host"},
		"a part of the host's name":        {here, write(here[:8]), "DELETE FROM kv", "names another host"},
		"an id that is empty":              {here, write("\n"), "DELETE FROM kv", "names another host"},
		"no id":                            {here, func(*testing.T, string) {}, "DELETE FROM kv", "no such file"},
		"an id without an end":             {here, write(here + strings.Repeat(" ", 1<<10)), "DELETE FROM kv", "larger than"},
		"a link":                           {here, func(t *testing.T, path string) { write(here)(t, path+".to"); must(t, os.Symlink(path+".to", path)) }, "DELETE FROM kv", "symbolic link"},
		"a pipe":                           {here, func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) }, "DELETE FROM kv", "not a regular file"},
		"another host, and other tables":   {another, write(here), "DROP TABLE kv; DROP TABLE a", "names another host"},
		"another host, which has joined":   {another, write(here), "", ""},
		"a backup of before the host join": {"", write(here), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 3, 1)
			if tc.then != "" {
				joined(t, h.db, "node", tc.then+".root")
			}
			h.take(t, "15.1.0")
			execDB(t, h.db, tc.live)
			tc.hostID(t, filepath.Join(filepath.Dir(filepath.Dir(h.db)), hostIDName))
			live, err := Open(h.db)
			must(t, err)
			defer live.Close()
			w := wantOf("15.1.0")
			w.Live = live
			err = Check(t.Context(), h.dir, w)
			if tc.refuse == "" {
				must(t, err)
				return
			}
			wantInvalid(t, err, OtherHost)
			if text := fmt.Sprint(err); !strings.Contains(text, tc.refuse) || strings.Contains(text, "/proc/self") {
				t.Errorf("it says %q; want %q", text, tc.refuse)
			}
		})
	}
}

// A database that an agent made anew has the tables of the one before, and joins with
// certificates of its own.
func TestADatabaseThatWasMadeAnewDoesNotDescendFromABackup(t *testing.T) {
	const name = "11111111-2222-3333-4444-555555555555.root"
	for how, tc := range map[string]struct {
		joined bool
		since  func(t *testing.T, db string)
		want   Descent
	}{
		"the same":                    {true, func(*testing.T, string) {}, SameIdentity},
		"the same, never joined":      {false, func(*testing.T, string) {}, SameTables},
		"migrated":                    {true, func(t *testing.T, db string) { execDB(t, db, "CREATE TABLE more (id INTEGER)") }, SameIdentity},
		"joined anew":                 {true, func(t *testing.T, db string) { joined(t, db, "node", name) }, NoDescent},
		"made anew, not joined":       {true, func(t *testing.T, db string) { execDB(t, db, "DELETE FROM kv") }, NoDescent},
		"without a table that it had": {true, func(t *testing.T, db string) { execDB(t, db, "DROP TABLE a") }, NoDescent},
	} {
		t.Run(how, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 3, 1)
			if tc.joined {
				joined(t, h.db, "node", name)
			}
			h.take(t, "15.1.0")
			tc.since(t, h.db)
			live, err := Open(h.db)
			must(t, err)
			defer live.Close()
			if got, err := live.DescendsFrom(t.Context(), h.dir); got != tc.want || err != nil {
				t.Errorf("it is %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func wantInvalid(t *testing.T, err error, reason Reason) {
	t.Helper()
	if invalid, ok := err.(*InvalidError); !ok || invalid.Reason != reason {
		t.Errorf("got %v; want %s", err, reason)
	}
}
