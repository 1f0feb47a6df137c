package installer

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// secretForms are those in which a secret stands in somebody's text: "%s" is its place.
var secretForms = map[string]string{
	"user info of a URL":              "https://ann:%s@mirror.example/a",
	"user info with a slash":          "https://ann:x/%s@mirror.example/a",
	"a name of a URL's user":          "https://%s@mirror.example/a.tar.gz",
	"query of a URL":                  "https://mirror.example/a?X-Amz-Signature=%s&v=1",
	"query without a name":            "https://mirror.example/a?%s",
	"path of a URL":                   "https://hooks.example/services/%s/a.tar.gz",
	"fragment of a URL":               "https://mirror.example/a#%s",
	"URL in quotes":                   `get "https://mirror.example/x/%s": 404`,
	"URL of another scheme":           "postgres://u:%s@db/x",
	"URL with one slash":              "https:/ann:%s@mirror.example/a",
	"URL in capitals":                 "HTTPS://ANN:%s@MIRROR.EXAMPLE/A",
	"template with spaces":            "https://u:p@m.example/t{{if .Enterprise}}-ent{{end}}-{{.Version}}.tar.gz?sig=%s",
	"template behind spaces":          "https://m.example/t{{if .Enterprise}}-ent{{end}}/%s/{{.Version}}.tar.gz",
	"user and password of no URL":     "copy ann:%s@mirror.example there",
	"setting":                         "auth_token: %s",
	"setting in quotes":               `"join_token": "%s"`,
	"setting with spaces":             `password = "%s"`,
	"setting in another case":         "ApiKey=%s",
	"flag with =":                     "teleport start --token=%s",
	"flag with a space":               "teleport start --token %s",
	"flag that nobody knows":          "/opt/x/bin/x --licence=%s",
	"flag that nobody knows, a space": "/opt/x/bin/x --licence %s",
	"short flag":                      "mysql -p %s",
	"short flag without a space":      "mysql -p%s",
	"curl's user":                     "curl -u ann:%s https://x.example",
	"header":                          "Authorization: Bearer %s",
	"bearer alone":                    "sent bearer %s to it",
	"header of somebody's":            "X-Vault-Thing: %s",
	"cookie":                          "Cookie: a=%s",
	"variable":                        "HTTPS_PROXY=http://eve:%s@proxy.example",
	"variable of any name":            "FOO=%s",
	"variable in quotes":              `A="x %s"`,
	"words":                           "the password is %s",
	"netrc":                           "machine h login u password %s",
}

// drawnWords are secrets that a machine has drawn: they are found wherever they stand.
var drawnWords = map[string]string{
	"UUID":              "550e8400-e29b-41d4-a716-446655440000",
	"hex":               "9f86d081884c7d659a2feaa0c55ad015",
	"base64":            "MIIEpAIBAAKCAQEA0fjX2cR7sVq3aB9n+kQ==",
	"access key":        "AKIAIOSFODNN7EXAMPLE",
	"JWT":               "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	"letters":           "qwkjzhxvbnmplokijuhygtfrdesw",
	"base32":            "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
	"groups of letters": "X4kd-9TqL-22Zp-0Vbn-7Yew",
}

// placesOfSecrets are those from which text comes into the file for a ticket.
var placesOfSecrets = map[string]func(*Installer, string){
	"the updater's journal": func(i *Installer, text string) { i.says("journalctl", text) },
	"a unit's environment":  func(i *Installer, text string) { i.says("cat", "[Service]\nEnvironment="+text+" \\\n  B="+text) },
	"a unit's command": func(i *Installer, text string) {
		i.says("cat", "[Service]\nExecStart=/usr/local/bin/teleport start "+text)
	},
	"a command before it":   func(i *Installer, text string) { i.says("cat", "[Service]\nExecStartPre=-/bin/sh -c '"+text+"'") },
	"a unit's description":  func(i *Installer, text string) { i.says("cat", "[Unit]\nDescription="+text) },
	"a unit's documents":    func(i *Installer, text string) { i.says("cat", "[Unit]\nDocumentation="+text) },
	"a unit's comment":      func(i *Installer, text string) { i.says("cat", "# "+text+"\n; "+text+"\n[Unit]") },
	"a unit's credential":   func(i *Installer, text string) { i.says("cat", "[Service]\nSetCredential=x:"+text) },
	"a directive of others": func(i *Installer, text string) { i.says("cat", "[Service]\nX-Mine="+text+"\nLogExtraFields="+text) },
	"a value of a directive that is known": func(i *Installer, text string) {
		i.says("cat", "[Service]\nUser="+text+"\nRestart="+text+"\nPIDFile="+text)
	},
	"a section": func(i *Installer, text string) { i.says("cat", "["+text+"]\n"+text) },
	"a state of a unit": func(i *Installer, text string) {
		i.says("show", "Id=teleport.service\nEnvironment="+text+"\nDropInPaths="+text)
	},
	"the list of timers": func(i *Installer, text string) { i.says("list-timers", text) },
	"a mount":            func(i *Installer, text string) { i.mounts(text, "cifs") },
	"the last error": func(i *Installer, text string) {
		i.config(func(c *state.Config) {
			c.Status.LastUpdate = &state.LastUpdate{Time: noon, Target: "1.1.0", Result: state.FailedEarly, Error: "fetch: " + text}
		})
	},
	"the history": func(i *Installer, text string) {
		data, _ := json.Marshal(map[string]any{"switches": []any{map[string]any{"time": noon, "cause": "update", "by": "timer", "error": text, "to": map[string]string{"version": "1.1.0", "edition": "oss"}, "result": "failed"}}})
		_ = os.WriteFile(i.Machine.Host.Paths.Versions()+"/history.json", data, 0o600)
	},
	"a template": func(i *Installer, text string) {
		i.config(func(c *state.Config) { c.Spec.URLTemplates = []string{text} })
	},
	"the proxy": func(i *Installer, text string) { i.config(func(c *state.Config) { c.Spec.Proxy = text }) },
}

// says has a program say a text: systemctl by its command.
func (i *Installer) says(command, text string) {
	_ = os.WriteFile(filepath.Join(os.Getenv("SAYS"), command), []byte(text+"\n"), 0o600)
}

func (i *Installer) mounts(source, kind string) {
	data, _ := json.Marshal(map[string]any{"filesystems": []any{map[string]string{"target": "/mnt", "source": source, "fstype": kind, "vfs-options": "rw"}}})
	i.says("findmnt", string(data))
}

func (i *Installer) config(change func(*state.Config)) {
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: "1.0.0"}
	c.Status = state.Status{ActiveEdition: version.OSS}
	change(&c)
	_ = c.Save(i.Machine.Host.Paths.Config())
}

// Each form of a secret, and each word that a machine has drawn, in each place: none is in the file for
// a ticket, and what is JSON stays JSON.
func TestNoPlantedSecretIsInTheFileForATicket(t *testing.T) {
	planted := map[string]string{}
	for name, form := range secretForms {
		planted[name] = fmt.Sprintf(form, "hunter2x")
	}
	for name, word := range drawnWords {
		planted[name] = "it answered " + word + " and no more"
		planted[name+" in a path"] = "open /srv/" + word + "/x"
	}
	tried := 0
	for _, place := range slices.Sorted(maps.Keys(placesOfSecrets)) {
		t.Run(place, func(t *testing.T) {
			for n, form := range slices.Sorted(maps.Keys(planted)) {
				if testing.Short() && n%30 != 0 {
					continue
				}
				tried++
				i := testInstaller(t)
				t.Setenv("SAYS", t.TempDir())
				programs(t, map[string]string{
					"journalctl": `cat "$SAYS/journalctl" 2>/dev/null || :`,
					"findmnt":    `cat "$SAYS/findmnt" 2>/dev/null || echo '{"filesystems": []}'`,
					"systemctl":  `cat "$SAYS/$1" 2>/dev/null || :`,
				})
				writeFile(t, i.Machine.Host.Paths.Config(), "")
				placesOfSecrets[place](i, planted[form])
				parts, _ := bundle(t, i)
				for name, text := range parts {
					if strings.Contains(text, "hunter2") || slices.ContainsFunc(slices.Collect(maps.Values(drawnWords)), func(word string) bool { return strings.Contains(text, word[:len(word)/2]) }) {
						t.Errorf("%s: %s has it:\n%s", form, name, text)
					}
					if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) && !strings.Contains(text, "could not be found out") {
						t.Errorf("%s: %s is no JSON:\n%s", form, name, text)
					}
				}
			}
		})
	}
	if testing.Short() {
		return
	}
	page, err := os.ReadFile("../docs/development/threat-model.md")
	must(t, err)
	if counted := fmt.Sprintf("%d planted forms, %d places, %d times", len(planted), len(placesOfSecrets), tried); !strings.Contains(string(page), counted) {
		t.Errorf("the threat model does not have %q", counted)
	}
}

// The host's own secrets are out whatever they look like.
func TestTheHostsOwnSecretsAreNowhereInTheFileForATicket(t *testing.T) {
	i := testInstaller(t)
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	writeFile(t, i.Machine.Host.Paths.Report(), `{"secret":"ownsecret","token":"owntoken"}`)
	writeFile(t, i.Machine.Host.Paths.AgentConfig, "teleport: {auth_token: agents, join_params: {token_name: joining, method: token}}\nauth_service: {tokens: [\"node:static\"]}\n")
	node := filepath.Join(t.TempDir(), "node.yaml")
	writeFile(t, node, "teleport: {auth_token: elsewhere}\n")
	writeFile(t, i.Machine.Host.Paths.Unit(), "[Service]\nExecStart=/bin/teleport start --config="+node+"\n")
	programs(t, map[string]string{"journalctl": "echo it has ownsecret, owntoken, agents, joining, static and elsewhere", "systemctl": ":", "findmnt": "echo '{}'"})
	parts, _ := bundle(t, i)
	for _, word := range []string{"ownsecret", "owntoken", "agents", "joining", "static", "elsewhere"} {
		if strings.Contains(parts["journal-updater.txt"], word) {
			t.Errorf("%s is in %s", word, parts["journal-updater.txt"])
		}
	}
}

// What helps stays: units of ours and of the agent, versions, addresses, paths, advice.
func TestTheFileForATicketKeepsWhatHelps(t *testing.T) {
	c := newCleaner(nil)
	for _, line := range []string{
		"watching the agent version=1.1.0 unit=teleport.service",
		"error: fetch version 15.1.1 (oss): https://cdn.teleport.dev/teleport-v15.1.1-linux-amd64-bin.tar.gz.sha256: the answer is 404 Not Found; the agent stays on version 15.1.0",
		"ask https://proxy.example.com:3080/v1/webapi/find: no connection to 10.1.2.3:3080: connection refused",
		"it is held: `teleport-update update --now` releases it; `teleport-update enable --proxy ADDR` names the proxy",
		"-rw-r--r--       4096 2026-11-25T02:14:00Z /var/lib/teleport/versions/15.1.1/backup/sqlite.db ",
		"teleport.service: Main process exited, code=exited, status=1/FAILURE",
		"teleport-update 0.2.0-git20261125021400.gabcdef012345, go1.27.3 linux/amd64",
		"ok   agent: active (running), runs version 15.1.1, PID 4242, since 2026-11-25T02:14:00Z, enabled at boot",
	} {
		if got := c.line(line); got != line {
			t.Errorf("%q\nbecomes %q", line, got)
		}
	}
	unit := "# /usr/local/lib/systemd/system/teleport.service\n[Unit]\nAfter=network.target sshd.service\n\n[Service]\nType=simple\nRestart=always\nRestartSec=5\n" +
		"ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid\nExecReload=/bin/kill -HUP $MAINPID\nPIDFile=/run/teleport.pid\nLimitNOFILE=524288\nUMask=0022\nUser=teleport\n"
	if got := string(c.cleanUnits([]byte(unit))); got != unit {
		t.Errorf("the unit becomes\n%s", got)
	}
	const others = "[Service]\nExecStart=/opt/x/run --a b\nEnvironment=A=b\nFoo=bar\n"
	if got, want := string(c.cleanUnits([]byte(others))), "[Service]\nExecStart=/opt/x/run (2 arguments are left out)\nEnvironment=(left out)\nFoo=(left out)\n"; got != want {
		t.Errorf("a unit of others becomes\n%s", got)
	}
	const commented = "[Service]\n# User=old \\\nUser=teleport\nExecStart=/usr/local/bin/teleport start \\\n# the usual one\n  --config=/etc/teleport.yaml\n"
	if got, want := string(c.cleanUnits([]byte(commented))), "[Service]\nUser=teleport\nExecStart=/usr/local/bin/teleport start --config=/etc/teleport.yaml\n"; got != want {
		t.Errorf("a unit with comments becomes\n%s", got)
	}
}

// The agent's own lines come only if they are asked for, and say that nobody has cleaned them.
func TestTheAgentsJournalIsAskedFor(t *testing.T) {
	i := testInstaller(t)
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	programs(t, map[string]string{"journalctl": `echo "args $*"`, "systemctl": ":", "findmnt": "echo '{}'"})
	const name = "agent-journal-not-cleaned.txt"
	without, _ := bundle(t, i)
	if _, ok := without[name]; ok {
		t.Error("it is there without being asked for")
	}
	for part, want := range map[string]string{"journal-updater.txt": "-t teleport-update _UID=0", "journal-systemd.txt": "-t systemd _PID=1"} {
		if !strings.Contains(without[part], want) {
			t.Errorf("%s is asked for by %s", part, without[part])
		}
	}
	with := bundleOf(t, i, SupportOptions{AgentJournal: true})
	if text := with[name]; !strings.HasPrefix(text, "NOT CLEANED") || !strings.Contains(text, "-u teleport.service") {
		t.Errorf("%q", text)
	}
}
