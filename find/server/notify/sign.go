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
	// keyMark is what Standard Webhooks has before a key in base64.
	keyMark = "whsec_"
	// minKey and maxKey are the lengths of a key that Standard Webhooks allows, in bytes.
	minKey, maxKey = 24, 64
	// maxKeys is room for the old key and the new one, while receivers learn the new one.
	maxKeys = 4
	// maxSecret is more than maxKeys of them take.
	maxSecret = 4096
)

// readKeys reads the keys of a file, one in a line: bytes in base64 after "whsec_", or
// the characters themselves. An event is signed with all of them.
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

// parseKey quotes nothing of what is secret.
func parseKey(text string) ([]byte, error) {
	key := []byte(text)
	if encoded, is := strings.CutPrefix(text, keyMark); is {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("what is after " + keyMark + " is no base64")
		}
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

// seconds is a time as the headers have it.
func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
