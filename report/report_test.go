package report

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find"
)

func TestAHostJoinsOnceAndReportsWithItsOwnSecret(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	secret := w.file().Secret
	w.sent("") // it has no host_uuid yet
	if len(w.requests) != 0 {
		t.Fatalf("a host without a host_uuid sends %+v", w.requests)
	}
	w.sent(hostID)
	w.sent(hostID)
	if w.paths() != "join heartbeat heartbeat" {
		t.Fatalf("sent: %s", w.paths())
	}
	join, beat := w.requests[0], w.requests[1]
	if join.auth != "Bearer "+token || strings.Contains(join.body, secret) {
		t.Errorf("the join: %+v", join)
	}
	if beat.auth != "Bearer "+secret || strings.Contains(beat.body, secret) || strings.Contains(beat.body+w.requests[2].auth, token) {
		t.Errorf("the report: %+v", beat)
	}
	var b find.Heartbeat
	if err := json.Unmarshal([]byte(beat.body), &b); err != nil || b.HostID != hostID || b.Sequence == 0 || len(b.UpdaterID) != 36 {
		t.Errorf("%+v, %v", b, err)
	}
	for _, line := range w.requests {
		if strings.Contains(line.body, "0123456789abcdef0123456789abcdef") {
			t.Error("the machine-id is told")
		}
	}
	data, err := os.ReadFile(w.r.File)
	if err != nil || strings.Contains(string(data), token) {
		t.Errorf("the token is kept after the join: %s, %v", data, err)
	}
	if info, err := os.Stat(w.r.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// Another token, another secret.
	w.enroll()
	if c := w.file(); c.Secret == secret || c.HostID != "" {
		t.Errorf("%+v", c)
	}
}

func TestAJoinWhoseAnswerWasLostIsMadeAgainWithTheSameSecret(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	w.answers = func(request) (int, string) { return 502, "<html>" }
	if err := w.send(hostID); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("%v", err)
	}
	w.answers = func(request) (int, string) { return 200, "{}" }
	w.sent(hostID)
	if w.paths() != "join join heartbeat" || w.requests[0] != w.requests[1] {
		t.Errorf("%+v", w.requests)
	}
}

func TestASequenceThatTheServerHasSeenIsRaised(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	last := uint32(4_000_000_000)
	w.answers = func(r request) (int, string) {
		var b find.Heartbeat
		if json.Unmarshal([]byte(r.body), &b); r.path == find.HeartbeatPath && b.Sequence <= last {
			said, _ := json.Marshal(find.HeartbeatError{Error: "seen", Sequence: last})
			return 409, string(said)
		}
		return 200, "{}"
	}
	w.sent(hostID)
	if w.paths() != "join heartbeat heartbeat" {
		t.Errorf("%s", w.paths())
	}
	// Not above what there is.
	last = 1<<32 - 1
	w.requests = nil
	if err := w.send(hostID); err == nil || w.paths() != "heartbeat" {
		t.Errorf("%s, %v", w.paths(), err)
	}
}

// A copy of the host that reports at the same moment takes the next number too.
func TestASequenceThatACopyTakesFirstIsRaisedAgain(t *testing.T) {
	for _, tc := range []struct {
		taken int // by the copy, before the report of this host
		sent  bool
	}{{1, true}, {3, true}, {4, false}} {
		w := newWorld(t)
		w.enroll()
		w.sent(hostID)
		w.requests = nil
		taken, last := 0, uint32(0)
		w.answers = func(r request) (int, string) {
			var b find.Heartbeat
			if err := json.Unmarshal([]byte(r.body), &b); err != nil {
				t.Fatal(err)
			}
			if taken < tc.taken {
				taken++
				last = max(last+1, b.Sequence)
			}
			if b.Sequence <= last {
				said, _ := json.Marshal(find.HeartbeatError{Error: "seen", Sequence: last})
				return 409, string(said)
			}
			return 200, "{}"
		}
		if err := w.send(hostID); (err == nil) != tc.sent {
			t.Errorf("the copy took %d numbers: %v after %s", tc.taken, err, w.paths())
		}
		if len(w.requests) != min(tc.taken+1, sequenceTries) {
			t.Errorf("the copy took %d numbers: %s", tc.taken, w.paths())
		}
	}
}

func TestASecretOfAnotherHostIsRemoved(t *testing.T) {
	for name, change := range map[string]func(w *world) (host string){
		"another host_uuid": func(w *world) string { return "22222222-0000-4000-8000-000000000000" },
		"another machine-id": func(w *world) string {
			w.machine("ffffffffffffffffffffffffffffffff")
			return hostID
		},
		"another machine-id, and no host_uuid": func(w *world) string {
			w.machine("ffffffffffffffffffffffffffffffff")
			return ""
		},
		"no machine-id": func(w *world) string {
			w.machine("uninitialized")
			return hostID
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.enroll()
			w.sent(hostID)
			w.requests = nil
			host := change(w)
			err := w.send(host)
			if _, removed := errors.AsType[*RemovedError](err); !removed || len(w.requests) != 0 {
				t.Errorf("%v, %+v", err, w.requests)
			}
			if _, err := os.Lstat(w.r.File); !os.IsNotExist(err) {
				t.Errorf("the secret is still there: %v", err)
			}
			if err := w.send(hostID); !errors.Is(err, ErrNone) || len(w.requests) != 0 {
				t.Errorf("%v, %+v", err, w.requests)
			}
		})
	}
	w := newWorld(t)
	w.enroll()
	w.sent(hostID)
	w.sent(strings.ToUpper(hostID)) // is the same
}

func TestNothingIsSentToAnotherServer(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	w.sent(hostID)
	w.requests = nil
	other := newWorld(t)
	if err := w.r.Send(t.Context(), other.server.URL, find.Heartbeat{HostID: hostID}); err == nil || len(other.requests) != 0 {
		t.Errorf("%v, %+v", err, other.requests)
	}
	w.answers = func(request) (int, string) { return 307, "" }
	if err := w.send(hostID); err == nil || w.paths() != "heartbeat" {
		t.Errorf("a redirect was followed: %s, %v", w.paths(), err)
	}
	// Another spelling of the same address is the same.
	w.answers = func(request) (int, string) { return 200, "{}" }
	if err := w.r.Send(t.Context(), strings.ToUpper(w.server.URL)+"/", find.Heartbeat{HostID: hostID}); err != nil {
		t.Error(err)
	}
}

func TestAServerThatStallsHoldsNobody(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	w.sent(hostID)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	w.answers = func(request) (int, string) {
		cancel() // as an update does that is through
		<-release
		return 200, "{}"
	}
	err := w.r.Send(ctx, w.server.URL, find.Heartbeat{HostID: hostID})
	close(release)
	if err == nil {
		t.Error("a report that was cut off was sent")
	}
}

func TestWhatAServerSaysIsOneLine(t *testing.T) {
	w := newWorld(t)
	w.enroll()
	w.sent(hostID)
	for _, tc := range []struct {
		status     int
		body, want string
	}{
		{401, `{"error":"no host of this id"}`, "the server says: no host of this id"},
		{409, `{"error":"seen"}`, "the server says: seen"},
		{503, `{"error":"a\nb\u001b[31m"}`, "the server says: a b [31m"},
		{404, `not found`, "takes no reports"},
		{500, `<html>`, "500"},
		{500, `{"error":""}`, "500"},
		{200, ``, ""},
		{503, `{"error":"` + strings.Repeat("x", 1<<20) + `"}`, "503"},
	} {
		w.answers = func(request) (int, string) { return tc.status, tc.body }
		err := w.send(hostID)
		switch {
		case tc.want == "":
			if err != nil {
				t.Errorf("%d %s: %v", tc.status, tc.body, err)
			}
		case err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\x1b"):
			t.Errorf("%d %.40s: %v", tc.status, tc.body, err)
		case strings.Contains(err.Error(), w.file().Secret):
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func TestAFileThatOthersCanWriteIsNotUsed(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a mode of 0666": func(path string) error { return os.Chmod(path, 0o666) },
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Symlink(path+".old", path))
		},
		"noise":          func(path string) error { return os.WriteFile(path, []byte("noise"), 0o600) },
		"nothing":        func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"half of it":     func(path string) error { return os.Truncate(path, 20) },
		"another schema": func(path string) error { return os.WriteFile(path, []byte(`{"version":"v9","secret":"s"}`), 0o600) },
		"megabytes":      func(path string) error { return os.Truncate(path, 10<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.enroll()
			w.sent(hostID)
			w.requests = nil
			if err := spoil(w.r.File); err != nil {
				t.Fatal(err)
			}
			if err := w.send(hostID); err == nil || len(w.requests) != 0 || errors.Is(err, ErrNone) {
				t.Errorf("%v, %+v", err, w.requests)
			}
			w.enroll()
			w.sent(hostID)
		})
	}
}

func TestReadToken(t *testing.T) {
	dir := t.TempDir()
	for content, ok := range map[string]bool{
		token: true, "\ufeff" + token: true, "\xff\xfe" + strings.Join(strings.Split(token, ""), "\x00") + "\x00": true, token + "\n": true, "  " + token + "\n\n": true,
		"": false, "\n": false, "short": false, token + " " + token: false, token + "\n" + token: false,
		strings.Repeat("x", 300): false, strings.Repeat("x", 10000): false, "tøken-tøken-tøken-tøken": false, "a\x00" + token: false,
	} {
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadToken(file)
		if (err == nil) != ok || ok && got != token {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		if err != nil && len(content) > 15 && strings.Contains(err.Error(), content) {
			t.Errorf("the error tells the token: %v", err)
		}
	}
	if _, err := ReadToken(filepath.Join(dir, "missing")); err == nil {
		t.Error("a file that is missing is read")
	}
}
