package report

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"teleport-update/find"
	"teleport-update/internal/durable"
	"teleport-update/internal/plaintext"
	"teleport-update/internal/regular"
)

const (
	// maxCredential is far above the size of a credential, in bytes.
	maxCredential = 8 << 10
	// maxTokenSize is far above the size of a join token, in bytes.
	maxTokenSize = 4096
)

// credential is the content of the file: the secret of this host for reports, and their receiver.
type credential struct {
	Version string `json:"version"`
	// Proxy is the find server that the token was given for. No other server sees the token or the secret.
	Proxy string `json:"proxy"`
	// Token is set until the host has joined, and HostID from then on.
	Token  string `json:"join_token,omitempty"`
	HostID string `json:"host_id,omitempty"`
	// Machine is a digest of the machine-id, which programs must not tell anybody (machine-id(5)).
	Machine string `json:"machine"`
	// Secret is made by this host, and sent only with its reports.
	Secret string `json:"secret"`
}

const credentialVersion = "v1"

// ReadToken returns the join token in a file, for Enroll.
func ReadToken(file string) (string, error) {
	data, err := regular.Read(file, maxTokenSize, 0)
	if err != nil {
		return "", fmt.Errorf("read the join token for reports: %w", err)
	}
	token := strings.TrimSpace(string(plaintext.UTF8(data)))
	if len(token) < 16 || len(token) > 200 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s does not hold one word of 16 to 200 letters, as a join token for reports is (\"teleport-find "+
			"token add\" prints one)", file)
	}
	return token, nil
}

// Enroll has the host report to a find server from now on. It joins with its next report, which needs a host_uuid; until then the token is
// kept. An earlier secret is forgotten.
func (r *Reporter) Enroll(token, proxy string) error {
	base, err := find.ParseProxy(proxy)
	if err != nil {
		return err
	}
	return r.save(credential{Version: credentialVersion, Proxy: base.String(), Token: token, Machine: r.machine(),
		Secret: rand.Text() + rand.Text()})
}

func (r *Reporter) save(c credential) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return durable.WriteFile(r.File, append(data, '\n'), 0o600)
}

// load returns ErrNone if the host does not report.
func (r *Reporter) load() (c credential, err error) {
	data, err := regular.Read(r.File, maxCredential, regular.NoLink|regular.Sealed)
	if errors.Is(err, fs.ErrNotExist) {
		return c, ErrNone
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	whole := c.Secret != "" && c.Proxy != "" && (c.Token != "" || c.HostID != "")
	if err == nil && (c.Version != credentialVersion || !whole) {
		err = errors.New("it is not one that this version has written")
	}
	if err != nil {
		return c, fmt.Errorf("read %s, with which this host reports: %w; \"teleport-update enable --report-token-file\" writes another", r.File,
			err)
	}
	return c, nil
}

// Forget ends the reports of this host.
func (r *Reporter) Forget() error {
	return durable.Remove(r.File)
}

// machine returns a digest of the machine-id; empty if there is no machine-id.
func (r *Reporter) machine() string {
	data, err := regular.Read(r.MachineID, 256, 0)
	id := strings.TrimSpace(string(data))
	if err != nil || id == "" || id == "uninitialized" {
		return ""
	}
	return digest("machine", id)
}

func digest(words ...string) string {
	sum := sha256.Sum256([]byte("teleport-update report\x00" + strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// updaterID returns the updater's own UUID. It stays as long as host and machine stay.
func (c credential) updaterID(hostID string) string {
	d := []byte(digest("updater", strings.ToLower(hostID), c.Machine))
	d[12], d[16] = '8', '8' // RFC 9562: version 8, of our own making
	return fmt.Sprintf("%s-%s-%s-%s-%s", d[:8], d[8:12], d[12:16], d[16:20], d[20:])
}
