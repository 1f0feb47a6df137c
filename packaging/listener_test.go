package packaging

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The example of a receiver of events takes what is signed, now and for the first time.
func TestTheListenerTakesWhatIsSigned(t *testing.T) {
	dir := t.TempDir()
	key := bytes.Repeat([]byte("k"), 32)
	secret, taken := filepath.Join(dir, "secret"), filepath.Join(dir, "taken")
	if err := os.WriteFile(secret, []byte("whsec_"+base64.StdEncoding.EncodeToString([]byte("an old secret of 24 bytes"))+"\nwhsec_"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `[ "$EVENT_TYPE" = rollout.halted ] || exit 1; { cat; echo " $EVENT_TEXT"; } >> ` + taken
	cmd := exec.Command("python3", "teleport-find/examples/notify-listener.py", secret, "--listen", "127.0.0.1:0", "sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		t.Fatalf("it says %q, %v", line, err)
	}
	const event = `{"type":"rollout.halted","text":"a halt"}`
	post := func(id, body string, at time.Time, key []byte) int {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "http://"+address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), event)
		req.Header.Set("webhook-id", id)
		req.Header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
		req.Header.Set("webhook-signature", "v1,bm9uZQ== v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	now := time.Now()
	for _, tc := range []struct {
		what, id, body string
		at             time.Time
		key            []byte
		want           int
	}{
		{"an event", "msg_1", event, now, key, 204},
		{"a repeat", "msg_1", event, now, key, 204},
		{"one by the old secret", "msg_2", event, now, []byte("an old secret of 24 bytes"), 204},
		{"one by another secret", "msg_3", event, now, []byte("another secret of 24 bytes"), 401},
		{"another body", "msg_4", strings.Replace(event, "a halt", "nothing", 1), now, key, 401},
		{"one of an hour ago", "msg_5", event, now.Add(-time.Hour), key, 401},
		{"one that is too large", "msg_6", event + strings.Repeat(" ", 1<<20), now, key, 413},
		{"one that no buffer of a connection holds", "msg_7", event + strings.Repeat(" ", 15<<20), now, key, 413},
	} {
		if got := post(tc.id, tc.body, tc.at, tc.key); got != tc.want {
			t.Errorf("%s: %d; want %d", tc.what, got, tc.want)
		}
	}
	if data, err := os.ReadFile(taken); err != nil || string(data) != strings.Repeat(event+" a halt\n", 2) {
		t.Errorf("the program got %q, %v", data, err)
	}
}
