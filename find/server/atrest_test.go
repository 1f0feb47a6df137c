package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/store"
)

// Who reads the store, or a copy of it, has no token and no secret of a host.
func TestTheStoreHasNoTokenAndNoSecret(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	r.joined(token, "dev", 0, 1)
	r.said(0, "dev", "17.2.0", nil)
	access, err := admin.NewAccess(w.store, r.clock.Now).Add(t.Context(), adminapi.AccessRequest{Name: "ci", Role: "viewer"}, store.Audit{Who: "uid 0", Time: r.clock.Now()}, false)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(w.path + "*")
	if err != nil || len(files) < 2 { // the log beside it
		t.Fatal(files, err)
	}
	found := false
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(data), "web-0")
		for what, secret := range map[string]string{"a token": token, "the secret of a host": r.secrets[0], "the secret of another": r.secrets[1], "an access token": access.Token} {
			_, bare, _ := strings.Cut(secret, "find-")
			for _, text := range []string{secret, bare} {
				if len(text) > 20 && strings.Contains(string(data), text) {
					t.Errorf("%s is in %s", what, filepath.Base(file))
				}
			}
		}
	}
	if !found {
		t.Error("the store is not looked at: it has no host")
	}
}
