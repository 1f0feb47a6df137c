package installer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// bundle is what support writes, by the names of its parts.
func bundle(t *testing.T, i *Installer) (parts map[string]string, size int) {
	t.Helper()
	var b bytes.Buffer
	must(t, i.Support(t.Context(), &b, SupportOptions{}))
	size = b.Len()
	return unpacked(t, &b), size
}

func bundleOf(t *testing.T, i *Installer, o SupportOptions) map[string]string {
	t.Helper()
	var b bytes.Buffer
	must(t, i.Support(t.Context(), &b, o))
	return unpacked(t, &b)
}

func unpacked(t *testing.T, b io.Reader) (parts map[string]string) {
	t.Helper()
	z, err := gzip.NewReader(b)
	must(t, err)
	parts = map[string]string{}
	for archive := tar.NewReader(z); ; {
		head, err := archive.Next()
		if err == io.EOF {
			return parts
		}
		must(t, err)
		text, err := io.ReadAll(archive)
		must(t, err)
		parts[strings.TrimPrefix(head.Name, "teleport-update-support/")] = string(text)
	}
}

// programs puts scripts in front of the host's own.
func programs(t *testing.T, scripts map[string]string) {
	dir := t.TempDir()
	for name, script := range scripts {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestTheFileForATicketHoldsNoSecret(t *testing.T) {
	i := testInstaller(t)
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: "1.0.0", URLTemplates: []string{"https://ann:marked-1@mirror.example/{{.Version}}.tar.gz?token=marked-2"}}
	c.Status = state.Status{ActiveEdition: version.OSS, LastUpdate: &state.LastUpdate{Time: noon, Target: "1.1.0", Result: state.FailedEarly, Error: "fetch https://ann:marked-3@mirror.example/a?sig=marked-4: 404"}}
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	writeFile(t, i.Machine.Host.Paths.Report(), `{"secret":"marked-5"}`)
	writeFile(t, i.Machine.Host.Paths.LastAnswer(), `{"time":"2026-03-01T12:00:00Z","proxy":"https://ann:marked-14@proxy.example","Version":"1.2.0","token":"marked-15"}`)
	programs(t, map[string]string{
		"journalctl": `echo "args $*"; echo 'asking https://bob:marked-6@proxy.example/ token=marked-7 Authorization: Bearer marked-8'`,
		"systemctl": `cat <<'E'
[Service]
Environment=HTTPS_PROXY=http://eve:marked-9@proxy.example \
  OTHER=marked-10
 Environment="A=marked-11"
ExecStart=/usr/local/bin/teleport start --token=marked-12 --token marked-13 --config=/etc/teleport.yaml
Restart=on-failure
E`,
	})
	parts, _ := bundle(t, i)
	for name, text := range parts {
		if strings.Contains(text, "marked") {
			t.Errorf("%s holds a secret:\n%s", name, text)
		}
	}
	for name, want := range map[string]string{
		"status.json": `"schema_version": 1`, "verify.txt": "BAD  active version: version 1.0.0", "history.json": `"switches"`, "find.json": `"1.2.0"`, "versions.txt": "teleport-update ",
		"journal-updater.txt": "-t teleport-update", "journal-systemd.txt": "-u teleport.service", "units.txt": "Restart=on-failure",
		"unit-states.txt": "", "timers.txt": "[Service]", "mounts.txt": "", "space.txt": " free", "files.txt": "updates.yaml",
	} {
		if text, ok := parts[name]; !ok || !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, text)
		}
	}
}

// Where releases come from, whom the host trusts for that, and what find said last and when: half of all tickets.
func TestTheFileForATicketSaysWhereReleasesComeFrom(t *testing.T) {
	i := testInstaller(t)
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: "1.0.0", CAFile: "/etc/ssl/mirror.pem",
		URLTemplates: []string{"https://one.example/teleport-{{.Version}}.tar.gz", "https://ann:marked@two.example/v{{.Version}}/teleport-{{\"marked\"}}.tar.gz"}}
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	must(t, i.finder().lastAnswer(c.Spec, find.Answer{Version: "1.2.0", Edition: version.OSS}).Save(i.Machine.Host.Paths.LastAnswer()))
	programs(t, map[string]string{"journalctl": ":", "systemctl": ":", "findmnt": "echo '{}'"})
	parts, _ := bundle(t, i)
	var status struct {
		Releases struct {
			Templates []string `json:"templates"`
			CAFile    string   `json:"ca_file"`
		} `json:"releases"`
	}
	must(t, json.Unmarshal([]byte(parts["status.json"]), &status))
	if got := strings.Join(status.Releases.Templates, " "); !strings.Contains(got, "https://one.example/teleport-{{.Version}}.tar.gz") ||
		!strings.Contains(got, "two.example/v{{.Version}}/…") || strings.Contains(got, "marked") {
		t.Errorf("the templates are %q", got)
	}
	if status.Releases.CAFile != "/etc/ssl/mirror.pem" {
		t.Errorf("the CA file is %q", status.Releases.CAFile)
	}
	var last state.LastAnswer
	must(t, json.Unmarshal([]byte(parts["find.json"]), &last))
	if last.Version != "1.2.0" || last.Time.IsZero() || last.Proxy == "" {
		t.Errorf("find's last answer is %s", parts["find.json"])
	}
}

func TestTheFileForATicketIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes take seconds to compress")
	}
	// What compresses badly, wherever it comes from.
	noise := func(bytes int) string {
		return fmt.Sprintf("head -c %d /dev/urandom | od -An -v -tu1; echo the end", bytes/2)
	}
	programs(t, map[string]string{"journalctl": noise(900_000), "systemctl": noise(250_000), "findmnt": noise(250_000), "uname": noise(250_000)})
	i := testInstaller(t)
	writeFile(t, filepath.Join(i.Machine.Host.Paths.Versions(), "x"), "")
	for n := range 4000 {
		must(t, os.Symlink(rand.Text()+rand.Text()+rand.Text(), filepath.Join(i.Machine.Host.Paths.Versions(), fmt.Sprint(n))))
	}
	parts, size := bundle(t, i)
	if size > 5_000_000 {
		t.Errorf("it is of %d bytes", size)
	}
	if text := parts["journal-updater.txt"]; !strings.HasSuffix(text, "the end\n") || !strings.HasPrefix(text, "… the beginning is left out") {
		t.Errorf("the journal of %d bytes is not its end", len(text))
	}
}

func TestAFileForATicketIsWrittenOnABrokenHost(t *testing.T) {
	i := testInstaller(t)
	writeFile(t, i.Machine.Host.Paths.Config(), "no: [yaml")
	writeFile(t, i.Machine.Host.Paths.Journal(), "no JSON")
	t.Setenv("PATH", t.TempDir())
	parts, _ := bundle(t, i)
	for _, name := range []string{"journal-updater.txt", "units.txt"} {
		if !strings.Contains(parts[name], name+" could not be found out") {
			t.Errorf("%s does not say why it is empty:\n%s", name, parts[name])
		}
	}
	for _, name := range []string{"status.json", "verify.txt"} {
		if !strings.Contains(parts[name], "repair the file") {
			t.Errorf("%s does not say what is broken:\n%s", name, parts[name])
		}
	}
	if !strings.Contains(parts["files.txt"], "journal.json") || !strings.Contains(parts["space.txt"], "free") {
		t.Errorf("what can be found out is not there: %v", parts)
	}
}
