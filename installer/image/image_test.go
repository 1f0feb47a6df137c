package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type m = map[string]any

// secret is written instead of a secret, or of the path of a file with one.
const secret = "SECRET"

// places are where agents and bots take a secret from.
var places = map[string]m{
	"auth_token":                        {"teleport": m{"auth_token": secret}},
	"a token name":                      {"teleport": m{"join_params": m{"token_name": secret}}},
	"a token name with its method":      {"teleport": m{"join_params": m{"method": "token", "token_name": secret}}},
	"a token name with another method":  {"teleport": m{"join_params": m{"method": "other", "token_name": secret}}},
	"a token beside a proving method":   {"teleport": m{"auth_token": secret, "join_params": m{"method": "iam", "token_name": "x"}}},
	"the secret of a token":             {"teleport": m{"join_params": m{"method": "iam", "token_name": "x", "token_secret": secret}}},
	"the secret of a registration":      {"teleport": m{"join_params": m{"method": "iam", "token_name": "x", "bound_keypair": m{"registration_secret": secret}}}},
	"a static token":                    {"auth_service": m{"tokens": []string{"node,app:" + secret}}},
	"the second static token":           {"auth_service": m{"tokens": []string{"node:/etc/other", "proxy:" + secret}}},
	"a static token, not in a list":     {"auth_service": m{"tokens": "node:" + secret}},
	"the password of a database":        {"teleport": m{"storage": m{"conn_string": "postgresql://teleport:" + secret + "@db/x"}}},
	"a client's secret":                 {"auth_service": m{"sso": m{"client_secret": secret}}},
	"an API token":                      {"okta_service": m{"api_token": secret}},
	"a bot's token":                     {"onboarding": m{"token": secret, "join_method": "token"}},
	"a bot's token without a method":    {"onboarding": m{"token": secret}},
	"a bot's secret of a registration":  {"onboarding": m{"join_method": "bound_keypair", "bound_keypair": m{"registration_secret": secret}}},
	"a password of a directory service": {"windows_desktop_service": m{"ldap": m{"bind_password": secret}}},
}

// styles are how YAML can say one thing.
var styles = map[string]func(t *testing.T, v m) []byte{
	"block":        func(t *testing.T, v m) []byte { return marshal(t, v, 0) },
	"flow":         func(t *testing.T, v m) []byte { return marshal(t, v, yaml.FlowStyle) },
	"quoted":       func(t *testing.T, v m) []byte { return marshal(t, v, yaml.DoubleQuotedStyle) },
	"single":       func(t *testing.T, v m) []byte { return marshal(t, v, yaml.SingleQuotedStyle|yaml.FlowStyle) },
	"literal":      func(t *testing.T, v m) []byte { return marshal(t, v, yaml.LiteralStyle) },
	"folded":       func(t *testing.T, v m) []byte { return marshal(t, v, yaml.FoldedStyle) },
	"compact JSON": compact,
	"JSON":         func(t *testing.T, v m) []byte { b, err := json.MarshalIndent(v, "", "  "); check(t, err); return b },
	"BOM and CRLF": func(t *testing.T, v m) []byte {
		return append([]byte("\xef\xbb\xbf"), bytes.ReplaceAll(marshal(t, v, 0), []byte("\n"), []byte("\r\n"))...)
	},
	"a second document": func(t *testing.T, v m) []byte { return append([]byte("---\nversion: v3\n---\n"), marshal(t, v, 0)...) },
	"aliases":           aliases,
	"a merged mapping": func(t *testing.T, v m) []byte {
		return append([]byte("x: &base "), append(compact(t, v), "\n<<: *base\n"...)...)
	},
	"a value on the line below": func(t *testing.T, v m) []byte {
		return bytes.ReplaceAll(marshal(t, v, 0), []byte(": "+secret), []byte(":\n                    "+secret))
	},
	"a tag": func(t *testing.T, v m) []byte {
		return bytes.ReplaceAll(marshal(t, v, 0), []byte(": "+secret), []byte(": !!str "+secret))
	},
}

func compact(t *testing.T, v m) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	check(t, err)
	return b
}

func marshal(t *testing.T, v any, style yaml.Style) []byte {
	t.Helper()
	var n yaml.Node
	check(t, n.Encode(v))
	each(&n, func(n *yaml.Node) { n.Style = style })
	b, err := yaml.Marshal(&n)
	check(t, err)
	return b
}

// aliases has each text once, in a list before all else.
func aliases(t *testing.T, v m) []byte {
	t.Helper()
	var n yaml.Node
	check(t, n.Encode(v))
	all := &yaml.Node{Kind: yaml.SequenceNode}
	each(&n, func(n *yaml.Node) {
		for i, c := range n.Content {
			if c.Kind == yaml.ScalarNode && (n.Kind != yaml.MappingNode || i%2 == 1) {
				anchored := *c
				anchored.Anchor = "a" + string(rune('a'+len(all.Content)))
				all.Content = append(all.Content, &anchored)
				n.Content[i] = &yaml.Node{Kind: yaml.AliasNode, Value: anchored.Anchor, Alias: &anchored}
			}
		}
	})
	n.Content = append([]*yaml.Node{{Kind: yaml.ScalarNode, Value: "texts"}, all}, n.Content...)
	b, err := yaml.Marshal(&n)
	check(t, err)
	return b
}

func each(n *yaml.Node, do func(*yaml.Node)) {
	for _, c := range n.Content {
		each(c, do)
	}
	do(n)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, root, name string, content []byte) {
	t.Helper()
	path := filepath.Join(root, name)
	check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600)))
}

func TestEachSecretIsFoundInEachStyle(t *testing.T) {
	for what, v := range places {
		for style, as := range styles {
			text := as(t, v)
			if !bytes.Contains(text, []byte(secret)) {
				t.Fatalf("%s as %s has no secret:\n%s", what, style, text)
			}
			for _, file := range []string{"etc/teleport.yaml", "etc/tbot.yaml", "etc/teleport/agent.yml"} {
				root := t.TempDir()
				write(t, root, file, text)
				found, err := Look(root)
				if err != nil || len(found.Secrets) != 1 || !strings.Contains(found.Secrets[0], file+" holds a token") {
					t.Errorf("%s as %s in %s: %q, %v\n%s", what, style, file, found.Secrets, err, text)
				}
			}
			if strings.Contains(what, "database") {
				continue // a URL, and no path
			}
			named := bytes.ReplaceAll(text, []byte(secret), []byte("/etc/join"))
			root := t.TempDir()
			write(t, root, "etc/teleport.yaml", named)
			found, err := Look(root)
			if err != nil || len(found.Secrets) != 0 {
				t.Errorf("%s as %s with the path of a file that is not there: %q, %v\n%s", what, style, found.Secrets, err, named)
			}
			write(t, root, "etc/join", []byte("token"))
			found, err = Look(root)
			if err != nil || len(found.Secrets) != 1 || !strings.Contains(found.Secrets[0], "etc/join is a token: take it out") {
				t.Errorf("%s as %s with the path of a file: %q, %v\n%s", what, style, found.Secrets, err, named)
			}
		}
	}
}

func TestWhatIsNoSecretIsNotTakenForOne(t *testing.T) {
	for what, v := range map[string]m{
		"IAM":             {"teleport": m{"join_params": m{"token_name": "iam-token", "method": "iam"}}},
		"a bot's TPM":     {"onboarding": m{"token": "tpm-token", "join_method": "tpm"}},
		"nothing":         {"teleport": m{"auth_token": "", "join_params": m{"method": "token", "token_name": nil}}},
		"other words":     {"teleport": m{"nodename": "token", "ca_pin": "sha256:abc", "proxy_server": "a.example.com:443"}, "ssh_service": m{"enabled": true, "token_ttl": "1h"}},
		"a URL":           {"app_service": m{"apps": []m{{"uri": "https://user@app.example.com/x?y=z"}}}},
		"a list of nodes": {"auth_service": m{"tokens": []string{"node:/etc/none"}}},
	} {
		for style, as := range styles {
			root := t.TempDir()
			write(t, root, "etc/teleport.yaml", as(t, v))
			if found, err := Look(root); err != nil || len(found.Secrets) != 0 {
				t.Errorf("%s as %s: %q, %v", what, style, found.Secrets, err)
			}
		}
	}
}

func TestSecretsOfUnitsAreFound(t *testing.T) {
	commands := map[string]string{
		"an argument":            "[Service]\nExecStart=/usr/local/bin/teleport start --token=SECRET --roles=node\n",
		"an argument of two":     "[Service]\nExecStart=/usr/local/bin/teleport start --token SECRET\n",
		"quotes":                 "[Service]\nExecStart=/usr/local/bin/teleport start \"--token=SECRET\"\n",
		"quotes about the value": "[Service]\nExecStart=/usr/local/bin/teleport start --token='SECRET'\n",
		"a line that goes on":    "[Service]\nExecStart=/usr/local/bin/teleport start \\\n  --token \\\n  SECRET\n",
		"a comment that goes on": "[Service]\n# ExecStart=/usr/bin/old \\\nExecStart=/usr/local/bin/teleport start --token=SECRET\n",
		"a comment inside":       "[Service]\nExecStart=/usr/local/bin/teleport start --token \\\n  # of the nodes\n  SECRET\n",
		"a bot":                  "[Service]\nExecStart=/usr/local/bin/tbot start --token=SECRET\n",
		"the environment":        "[Service]\nEnvironment=TELEPORT_BOT_TOKEN=SECRET\nExecStart=/usr/local/bin/tbot start\n",
		"the second variable":    "[Service]\nEnvironment=\"A=b\" \"JOIN_TOKEN=SECRET\"\nExecStart=/usr/local/bin/teleport start\n",
	}
	for what, text := range commands {
		for _, file := range []string{
			"etc/systemd/system/teleport.service", "usr/local/lib/systemd/system/teleport.service", "usr/lib/systemd/system/teleport.service",
			"lib/systemd/system/agent.service", "etc/systemd/system/teleport.service.d/override.conf",
		} {
			root := t.TempDir()
			write(t, root, file, []byte(text))
			if found, err := Look(root); err != nil || len(found.Secrets) != 1 || !strings.Contains(found.Secrets[0], "holds a token") {
				t.Errorf("%s in %s: %q, %v", what, file, found.Secrets, err)
			}
			write(t, root, file, []byte(strings.ReplaceAll(text, "SECRET", "/etc/join")))
			if found, err := Look(root); err != nil || len(found.Secrets) != 0 {
				t.Errorf("%s in %s with a path: %q, %v", what, file, found.Secrets, err)
			}
		}
	}
	for what, files := range map[string]map[string]string{
		"a file with the environment": {
			"etc/systemd/system/teleport.service": "[Service]\nEnvironmentFile=-/srv/env\nExecStart=/usr/local/bin/teleport start\n",
			"srv/env":                             "# OLD_TOKEN=x\nJOIN_TOKEN=SECRET\n",
		},
		"the usual file with the environment": {"etc/default/teleport": "X=y\nTELEPORT_AUTH_TOKEN=\"SECRET\"\n"},
		"what the unit before had":            {"var/lib/teleport/versions/original/before.json": `{"arguments":["--roles=node","--token=SECRET"]}`},
		"a configuration elsewhere": {
			"etc/systemd/system/teleport.service": "[Service]\nExecStart=/usr/local/bin/teleport start --config=/srv/agent.yaml\n",
			"srv/agent.yaml":                      "teleport: {auth_token: SECRET}\n",
		},
	} {
		root := t.TempDir()
		for file, text := range files {
			write(t, root, file, []byte(text))
		}
		if found, err := Look(root); err != nil || len(found.Secrets) != 1 {
			t.Errorf("%s: %q, %v", what, found.Secrets, err)
		}
	}
}

// A link leads where it would lead on a machine of the image, and never to this host.
func TestLinksLeadWhereTheyWouldOnAMachine(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside, "join", []byte("of this host"))
	write(t, root, "etc/teleport.yaml", []byte("teleport: {auth_token: /etc/join}\n"))
	check(t, os.Symlink(filepath.Join(outside, "join"), filepath.Join(root, "etc/join")))
	if found, err := Look(root); err != nil || len(found.Secrets) != 0 {
		t.Errorf("a link that leads nowhere on a machine: %q, %v", found.Secrets, err)
	}
	write(t, root, "srv/join", []byte("token"))
	for _, target := range []string{"/srv/join", "../srv/join", "../../../../srv/join", "/etc/../srv/./join"} {
		check(t, os.Remove(filepath.Join(root, "etc/join")))
		check(t, os.Symlink(target, filepath.Join(root, "etc/join")))
		found, err := Look(root)
		if want := filepath.Join(root, "srv/join") + " is a token: take it out of the image"; err != nil || !slices.Equal(found.Secrets, []string{want}) {
			t.Errorf("a link to %s: %q, %v; want %q", target, found.Secrets, err, want)
		}
	}
	check(t, os.Remove(filepath.Join(root, "etc/join")))
	check(t, os.Symlink("join", filepath.Join(root, "etc/join")))
	if _, err := Look(root); err == nil {
		t.Error("links in a circle are passed over")
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	for what, text := range map[string]string{
		"no YAML":                "teleport: [\n",
		"a tab":                  "teleport:\n\tauth_token: x\n",
		"an alias inside itself": "a: &a [*a]\n",
	} {
		root := t.TempDir()
		write(t, root, "etc/teleport.yaml", []byte(text))
		if found, err := Look(root); err == nil {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

func TestIdentitiesThatAreLeftAreFound(t *testing.T) {
	root := t.TempDir()
	write(t, root, "etc/teleport.yaml", []byte("teleport: {data_dir: /srv/agent}\n"))
	write(t, root, "var/lib/teleport/versions/updates.yaml", []byte("version: v1\n"))
	found, err := Look(root)
	if err != nil || !slices.Equal(found.DataDirs, []string{"/var/lib/teleport", "/srv/agent"}) {
		t.Fatalf("%+v, %v", found, err)
	}
	if files, err := Identities(root, found.DataDirs); err != nil || len(files) != 0 {
		t.Errorf("%q, %v", files, err)
	}
	write(t, root, "var/lib/teleport/versions/1.0.0/aside", []byte("SQLite format 3\x00and more"))
	write(t, root, "srv/agent/key", []byte("text\n-----BEGIN EC PRIVATE KEY-----\n"))
	if files, err := Identities(root, found.DataDirs); err != nil || len(files) != 2 {
		t.Errorf("%q, %v", files, err)
	}
}
