package packaging

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is the folder of the updater that reader has built, if it has.
var built string

// reader is the updater, which reads what the script cannot.
var reader = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "seal-image"); err != nil {
		return "", err
	}
	program := filepath.Join(built, "teleport-update")
	return program, run(exec.Command("go", "build", "-o", program, "teleport-update/cmd/teleport-update"), "build the updater")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// seal runs the script on an image that has the updater.
func seal(t *testing.T, root string) (string, error) {
	t.Helper()
	skipBuild(t)
	program, err := reader()
	if err != nil {
		t.Fatal(err)
	}
	if place := filepath.Join(root, "usr/bin/teleport-update"); os.MkdirAll(filepath.Dir(place), 0o755) == nil {
		if err := os.Link(program, place); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "sh", "cloud-init/seal-image.sh", root).CombinedOutput()
	return string(out), err
}

// An image with a secret in it is refused, however the secret is written.
func TestAnImageWithATokenIsRefused(t *testing.T) {
	const updatesYAML = "var/lib/teleport/versions/updates.yaml"
	const holds, inFile = "holds a token", "is a token: take it out"
	for name, tc := range map[string]struct {
		config string
		files  []string // of the image
		text   map[string]string
		says   string // empty: the image is sealed
	}{
		"no configuration":                   {},
		"a path":                             {config: "teleport:\n  auth_token: /etc/teleport-join\n"},
		"a path in quotes":                   {config: "teleport:\n  auth_token: \"/etc/teleport-join\"\n"},
		"a path in flow style":               {config: "teleport: {join_params: {method: token, token_name: /etc/teleport-join}}\n"},
		"no token":                           {config: "teleport:\n  auth_token: \"\"\n  join_params: {method: token, token_name: ~}\n"},
		"a comment":                          {config: "teleport:\n  # auth_token: secret\n  nodename: x # token_name: secret\n"},
		"IAM":                                {config: "teleport:\n  join_params:\n    token_name: iam-token\n    method: iam\n"},
		"IAM in flow style":                  {config: "teleport: {join_params: {token_name: iam-token, method: iam}}\n"},
		"IAM in JSON":                        {config: `{"teleport": {"join_params": {"token_name": "iam-token", "method": "iam"}}}`},
		"a TPM":                              {config: "teleport:\n  join_params: {method: tpm, token_name: tpm-token}\n"},
		"the empty value of an earlier line": {config: "teleport:\n  auth_token:\n  nodename: x\n"},
		"a token":                            {config: "teleport:\n  auth_token: secret\n", says: holds},
		"a token name without a method":      {config: "teleport:\n  join_params:\n    token_name: secret\n", says: holds},
		"a token name with the method token": {config: "teleport:\n  join_params:\n    method: token\n    token_name: secret\n", says: holds},
		"a method that nobody knows":         {config: "teleport:\n  join_params: {method: other, token_name: secret}\n", says: holds},
		"a token in flow style":              {config: "teleport: {auth_token: secret}\n", says: holds},
		"a token after others in flow style": {config: "teleport: {nodename: x, auth_token: secret, data_dir: /d}\n", says: holds},
		"a token name in flow style":         {config: "teleport:\n  join_params: {method: token, token_name: secret}\n", says: holds},
		"a token name first in flow style":   {config: "teleport:\n  join_params: {token_name: secret, method: token}\n", says: holds},
		"a token in JSON":                    {config: `{"teleport": {"auth_token": "secret"}}`, says: holds},
		"a token in single quotes":           {config: "teleport: {'auth_token' : 'secret'}\n", says: holds},
		"a token on the line below":          {config: "teleport:\n  auth_token:\n    secret\n", says: holds},
		"a token in a block":                 {config: "teleport:\n  auth_token: >-\n    secret\n", says: holds},
		"an alias":                           {config: "x: &t secret\nteleport:\n  auth_token: *t\n", says: holds},
		"a token beside IAM":                 {config: "teleport:\n  auth_token: secret\n  join_params: {method: iam, token_name: x}\n", says: holds},
		"the secret of a registration":       {config: "teleport:\n  join_params: {method: iam, token_name: x, bound_keypair: {registration_secret: secret}}\n", says: holds},
		"the file that it names":             {config: "teleport:\n  auth_token: /etc/teleport-join\n", files: []string{"etc/teleport-join"}, says: inFile},
		"the file that flow style names":     {config: "teleport: {join_params: {method: token, token_name: /etc/teleport-join}}\n", files: []string{"etc/teleport-join"}, says: inFile},
		"compact JSON":                       {config: `{"teleport":{"auth_token":"secret"}}`, says: holds},
		"a static token":                     {config: "auth_service:\n  tokens: [\"node:secret\"]\n", says: holds},
		"no YAML":                            {config: "teleport: [", says: "may hold a token"},
		"a password in the updater's environment": {text: map[string]string{"etc/default/teleport-update": "HTTPS_PROXY=\"http://user:of-a-proxy@proxy.example.com:3128\"\n"},
			says: "teleport-update holds a token: the password in a URL"},
		"a password in a drop-in of the updater's unit": {text: map[string]string{"etc/systemd/system/teleport-update.service.d/proxy.conf": "[Service]\nEnvironment=HTTPS_PROXY=http://user:of-a-proxy@proxy.example.com:3128\n"},
			says: "proxy.conf holds a token: the password in a URL"},
		"a token in the updater's template": {text: map[string]string{updatesYAML: "spec:\n  url_templates: [\"https://mirror.example.com/{{ .Version }}?token=of-a-mirror\"]\n"},
			says: "updates.yaml holds a token: in the query of a URL"},
		"a password in the updater's template": {text: map[string]string{updatesYAML: "spec:\n  url_templates: [\"https://user:of-a-mirror@mirror.example.com/{{ .Version }}\"]\n"},
			says: "updates.yaml holds a token: the password in a URL"},
		"a query that a template computes":    {text: map[string]string{updatesYAML: "spec:\n  url_templates: [\"https://mirror.example.com/x?version={{ .Version }}&os={{ .OS }}\"]\n"}},
		"the file that cloud-init would make": {files: []string{"etc/teleport-token"}, says: inFile},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, content string) {
				name = filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("etc/machine-id", "of this machine\n")
			const reports = "var/lib/teleport/versions/report.json" // a copy would report in the name of this machine
			write(reports, "secret\n")
			if tc.config != "" {
				write("etc/teleport.yaml", tc.config)
			}
			for _, f := range tc.files {
				write(f, "secret\n")
			}
			for f, text := range tc.text {
				write(f, text)
			}
			out, err := seal(t, root)
			if tc.says == "" {
				if err != nil {
					t.Errorf("%v: %s", err, out)
				}
				if _, err := os.Lstat(filepath.Join(root, reports)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is in the image: %v", reports, err)
				}
				return
			}
			if err == nil || !strings.Contains(out, tc.says) {
				t.Errorf("got %v: %s; want %q", err, out, tc.says)
			}
			if id, err := os.ReadFile(filepath.Join(root, "etc/machine-id")); string(id) != "of this machine\n" || err != nil {
				t.Errorf("an image that is refused was changed: %q, %v", id, err)
			}
		})
	}
}

// A bot's keys are in folders of its own choice, which the image of many machines must not have.
func TestAnImageWithABotsKeysIsRefused(t *testing.T) {
	const key = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n"
	for name, tc := range map[string]struct{ config, file string }{
		"its arguments":                  {"# tbot start legacy --data-dir=/srv/bot --destination-dir=/opt/machine-id\n", "opt/machine-id/key"},
		"its state by an argument":       {"# tbot start legacy --data-dir /srv/bot\n", "srv/bot/key"},
		"its storage by an argument":     {"# tbot start identity --storage=file:///srv/bot --destination=file:///opt/machine-id\n", "srv/bot/key"},
		"its storage":                    {"storage: {type: directory, path: /srv/bot}\n", "srv/bot/primary.pem"},
		"an output":                      {"outputs:\n- type: identity\n  destination: {type: directory, path: /opt/machine-id}\n", "opt/machine-id/key"},
		"a service's output":             {"services:\n- type: identity\n  destination: {type: directory, path: /opt/machine-id}\n", "opt/machine-id/key"},
		"an output of an older form":     {"destinations:\n- directory: /opt/machine-id\n", "opt/machine-id/key"},
		"no storage in a configuration":  {"version: v2\n", "var/lib/tbot/key"},
		"no configuration in its folder": {"", "var/lib/tbot/key"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, content string) {
				name = filepath.Join(root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if command, unit := strings.CutPrefix(tc.config, "# "); unit {
				write("etc/systemd/system/tbot.service", "[Service]\nExecStart=/usr/local/bin/"+command)
			} else {
				write("etc/tbot.yaml", tc.config)
			}
			write(tc.file, key)
			if out, err := seal(t, root); err == nil || !strings.Contains(out, tc.file+" holds a private key") {
				t.Errorf("%v: %s", err, out)
			}
			if err := os.Remove(filepath.Join(root, tc.file)); err != nil {
				t.Fatal(err)
			}
			if out, err := seal(t, root); err != nil {
				t.Errorf("without the key: %v: %s", err, out)
			}
		})
	}
}

// An absolute link in an image leads to this host.
func TestNothingIsRemovedThroughALinkOutOfTheImage(t *testing.T) {
	const staging = ".staging-1.0.0-1"
	for name, tc := range map[string]struct {
		link, config string // a folder of the image that is a link; updates.yaml
		left         string // by a fetch, in the image
		refused      bool
	}{
		"no link":                        {left: "opt/teleport-update/" + staging},
		"programs elsewhere":             {config: "spec:\n  programs_dir: \"/srv/programs\"\n", left: "srv/programs/" + staging},
		"/opt is a link":                 {link: "opt", refused: true},
		"the programs' folder is a link": {link: "opt/teleport-update", refused: true},
		"programs elsewhere by a link":   {link: "srv/programs", config: "spec:\n  programs_dir: /srv/programs\n", refused: true},
		"the data folder is a link":      {link: "var/lib/teleport", refused: true},
		"SSH's folder is a link":         {link: "etc/ssh", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			root, outside := t.TempDir(), t.TempDir()
			files := []string{
				filepath.Join(outside, staging, "bin"), filepath.Join(outside, "teleport-update", staging), filepath.Join(outside, "versions", "find.json"),
				filepath.Join(outside, "proc", "sqlite.db"), filepath.Join(outside, "ssh_host_rsa_key"),
			}
			inside := []string{filepath.Join(root, "etc", "machine-id")}
			if tc.left != "" {
				inside = append(inside, filepath.Join(root, tc.left, "bin"))
			}
			if tc.config != "" {
				inside = append(inside, filepath.Join(root, "var/lib/teleport/versions/updates.yaml"))
			}
			for _, f := range append(files, inside...) {
				if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(f, []byte(tc.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tc.link != "" {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, tc.link)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(outside, filepath.Join(root, tc.link)); err != nil {
					t.Fatal(err)
				}
			}
			out, err := seal(t, root)
			if tc.refused != (err != nil) || tc.refused && !strings.Contains(out, "leads out of the image") {
				t.Errorf("got %v: %s; want refused %v", err, out, tc.refused)
			}
			for _, f := range files {
				if _, err := os.Stat(f); err != nil {
					t.Errorf("this host lost a file: %v", err)
				}
			}
			if _, err := os.Stat(filepath.Join(root, tc.left)); tc.left != "" && err == nil {
				t.Errorf("%s is left in the image", tc.left)
			}
		})
	}
}

// What the agent and the updater know of the machine goes, and all that a machine of the
// image needs stays, whatever the folders hold by now.
func TestNothingOfTheMachineIsInTheImage(t *testing.T) {
	root := t.TempDir()
	const data, kept, gone = "var/lib/teleport/", "stays", "of this machine"
	files := map[string]string{
		"etc/machine-id": gone, "etc/teleport-update/webhook.url": gone, "etc/teleport-update/hooks/on-failure.d/webhook.sh": kept,
		data + "host_uuid": gone, data + "proc/sqlite.db": gone, data + "proc/sqlite.db-wal": gone, data + "token": gone, data + "log/upload/x": gone,
		data + "storage/backend.db": gone, data + ".hidden": gone, data + "updater/teleport-update": kept,
		data + "versions/updates.yaml": kept, data + "versions/history.json": gone, data + "versions/report.json": gone, data + "versions/find.json": gone,
		data + "versions/update.lock": gone, data + "versions/partial/x": gone, data + "versions/rollback/sqlite.db": gone, data + "versions/.new": gone,
		data + "versions/1.0.0/sha256": kept, data + "versions/1.0.0/backup/sqlite.db": gone, data + "versions/1.1.0_enterprise/manifest": kept,
		data + "versions/1.1.0_enterprise/backup/backup.yaml": gone, data + "versions/original/before.json": kept, data + "versions/original/backup/sqlite.db": gone,
		"opt/teleport-update/1.0.0/bin/teleport": kept, "opt/teleport-update/.staging-1/x": gone, "run/teleport-update/ticks.json": gone,
		"srv/agent/host_uuid": gone, "srv/agent/proc/sqlite.db": gone,
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	write("etc/teleport.yaml", "teleport: {data_dir: /srv/agent, auth_token: /etc/join}\n")
	write(data+"versions/1.0.0/aside.db", "SQLite format 3\x00")
	if out, err := seal(t, root); err == nil || !strings.Contains(out, "aside.db holds a private key or an agent's database") {
		t.Errorf("an image with a database in an unknown place: %v, %s", err, out)
	}
	for name, text := range files {
		write(name, text)
	}
	if err := os.Remove(filepath.Join(root, data+"versions/1.0.0/aside.db")); err != nil {
		t.Fatal(err)
	}
	if out, err := seal(t, root); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if text == kept && (err != nil || string(got) != kept) {
			t.Errorf("%s is lost: %v", name, err)
		}
		if text == gone && err == nil && len(got) > 0 {
			t.Errorf("%s is in the image", name)
		}
	}
}
