package installer

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// The agent's configuration names the file that root replaces.
func TestAJoinTokenReplacesNothingButAToken(t *testing.T) {
	const user = 1234
	if os.Geteuid() != 0 {
		t.Skip("other users are made by root")
	}
	for name, tc := range map[string]struct {
		there   string // in the place of the token; empty: nothing
		given   string // empty: secret
		prepare func(t *testing.T, i *Installer, place string)
		refused string
	}{
		"nothing is there": {},
		"another token":    {there: "the-token-before\n"},
		"an empty file":    {there: "\n"},
		"a token with a byte order mark before it":  {given: "\xef\xbb\xbfsecret\r\n"},
		"a token that PowerShell wrote":             {given: "\xff\xfes\x00e\x00c\x00r\x00e\x00t\x00\r\x00\n\x00", there: "\xff\xfea\x00"},
		"a token in big-endian UTF-16":              {given: "\xfe\xff\x00s\x00e\x00c\x00r\x00e\x00t"},
		"a byte order mark in the place of a token": {there: "\xef\xbb\xbf"},
		"what is no token":                          {there: "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n", refused: "does not hold one word"},
		"what is far too long":                      {there: strings.Repeat("x", maxTokenSize+1), refused: "is larger"},
		"a link": {refused: "link", prepare: func(t *testing.T, i *Installer, place string) {
			if err := os.Symlink("/etc/hostname", place); err != nil {
				t.Fatal(err)
			}
		}},
		"a configuration of another user's": {there: "token", refused: "belongs to another user", prepare: func(t *testing.T, i *Installer, _ string) {
			if err := os.Chown(i.Machine.Host.Paths.AgentConfig, user, user); err != nil {
				t.Fatal(err)
			}
		}},
		"a configuration that everybody may write": {there: "token", refused: "can be written by everybody", prepare: func(t *testing.T, i *Installer, _ string) {
			if err := os.Chmod(i.Machine.Host.Paths.AgentConfig, 0o666); err != nil {
				t.Fatal(err)
			}
		}},
		"a folder of another user's": {refused: "belongs to another user", prepare: func(t *testing.T, _ *Installer, place string) {
			if err := os.Chown(filepath.Dir(place), user, user); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			dir := t.TempDir()
			place, given := filepath.Join(dir, "join", "place"), filepath.Join(dir, "given")
			writeFile(t, given, cmp.Or(tc.given, "secret"))
			writeFile(t, i.Machine.Host.Paths.AgentConfig, "teleport: {join_params: {token_name: "+place+"}}")
			if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
				t.Fatal(err)
			}
			if tc.there != "" {
				writeFile(t, place, tc.there)
			}
			if tc.prepare != nil {
				tc.prepare(t, i, place)
			}
			before, _ := os.ReadFile(place)
			token, err := planToken(i.Machine.Host, given)
			if err == nil {
				err = placeToken(t.Context(), i.Machine, token)
			}
			after, _ := os.ReadFile(place)
			_, refused := errors.AsType[*failure.RefusedError](err)
			switch {
			case tc.refused == "" && (err != nil || string(after) != "secret\n"):
				t.Errorf("it ends with %v, and holds %.40q", err, after)
			case tc.refused != "" && (!refused || !strings.Contains(err.Error(), tc.refused) || string(after) != string(before)):
				t.Errorf("it ends with %v, and holds %.40q; want it refused for %q", err, after, tc.refused)
			}
		})
	}
}

// A unit may lead the agent to another configuration than the usual one, which then says nothing.
func TestAJoinTokenGoesWhereTheUnitLeads(t *testing.T) {
	for name, named := range map[string]string{"a file that it names": "join/place", "a configuration that is not there yet": ""} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			dir := t.TempDir()
			node, given, usual := filepath.Join(dir, "node.yaml"), filepath.Join(dir, "given"), filepath.Join(dir, "usual")
			writeFile(t, given, "secret")
			writeFile(t, i.Machine.Host.Paths.AgentConfig, "teleport: {join_params: {token_name: "+usual+"}}")
			writeFile(t, i.Machine.Host.Paths.Unit(), "[Service]\nExecStart=/bin/teleport start --config="+node+"\n")
			must(t, os.MkdirAll(i.Machine.Host.Paths.DataDir, 0o755))
			place := filepath.Join(i.Machine.Host.Paths.DataDir, "token")
			if named != "" {
				place = filepath.Join(dir, named)
				must(t, os.MkdirAll(filepath.Dir(place), 0o755))
				writeFile(t, node, "teleport: {join_params: {token_name: "+place+"}}")
			}
			c := state.EmptyConfig()
			c.Spec.Proxy = "proxy.example.com"
			writeFile(t, i.Machine.Host.Paths.Config(), "")
			must(t, c.Save(i.Machine.Host.Paths.Config()))
			token, err := planToken(i.Machine.Host, given)
			must(t, err)
			must(t, placeToken(t.Context(), i.Machine, token))
			if got, err := os.ReadFile(place); err != nil || string(got) != "secret\n" {
				t.Errorf("%s holds %q (%v)", place, got, err)
			}
			if got, err := os.ReadFile(node); err != nil || !strings.Contains(string(got), "token_name: "+place) {
				t.Errorf("%s holds %q (%v)", node, got, err)
			}
			if host.Exists(usual) {
				t.Error("the token is where a configuration says that the agent does not read")
			}
		})
	}
}
