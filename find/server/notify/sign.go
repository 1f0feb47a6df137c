package notify

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"teleport-update/internal/regular"
)

const (
	// keyMark is the prefix of a key in base64 in Standard Webhooks.
	keyMark = "whsec_"
	// minKey and maxKey are the lengths of a key that Standard Webhooks allows, in bytes.
	minKey, maxKey = 24, 64
	// maxKeys is room for the old key and the new one, while receivers learn the new one.
	maxKeys = 4
	// maxSecret is more bytes than maxKeys keys take.
	maxSecret = 4096
)

// readKeys reads the keys of a file, one in a line. An event is signed with all of them.
func readKeys(file string) (keys [][]byte, err error) {
	data, err := regular.Read(file, maxSecret, 0)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		key, err := parseKey(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(keys)+1, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%s: it holds %d secrets; want 1 to %d, one in a line", file, len(keys), maxKeys)
	}
	return keys, nil
}

// parseKey reads a secret in the one form of Standard Webhooks. In another form, such as with quotes, a name before
// it or its version, a receiver would read another key from it, and refuse each event. The error quotes nothing of it.
func parseKey(text string) ([]byte, error) {
	encoded, marked := strings.CutPrefix(text, keyMark)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !marked || err != nil {
		return nil, errors.New("it is not a secret: write " + keyMark + " and the base64 of the key into the line, and nothing else " +
			"(no quotes, byte order mark, name or version)")
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("the secret has %d bytes; want %d to %d", len(key), minKey, maxKey)
	}
	return key, nil
}

// sign sets the headers of Standard Webhooks: the signature is over id, time and body.
func sign(header http.Header, keys [][]byte, id string, now time.Time, body []byte) {
	id = "msg_" + id
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, seconds(now), body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", seconds(now))
	header.Set("webhook-signature", strings.Join(signatures, " "))
}

// seconds returns a time in the form of the headers.
func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
