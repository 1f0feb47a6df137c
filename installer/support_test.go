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
	"unicode"

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

// says has a program say a text: systemctl by its command.
func says(command, text string) {
	_ = os.WriteFile(filepath.Join(os.Getenv("SAYS"), command), []byte(text+"\n"), 0o600)
}

// entry is one of the journal, as "journalctl -o json" prints it.
func entry(fields map[string]string) string {
	fields["__REALTIME_TIMESTAMP"] = "1772366400000000"
	text, _ := json.Marshal(fields)
	return string(text)
}

// aHostThatSays is a host whose programs print what says has them say.
func aHostThatSays(t *testing.T) *Installer {
	t.Helper()
	i := testInstaller(t)
	t.Setenv("SAYS", t.TempDir())
	programs(t, map[string]string{
		"journalctl": `case "$*" in *_PID=1*) cat "$SAYS/systemd";; *_UID=0*) cat "$SAYS/updater";; *) cat "$SAYS/agent";; esac 2>/dev/null || :`,
		"findmnt":    `for last; do :; done; echo "$last ext4 rw"`,
		"systemctl":  `cat "$SAYS/$1" 2>/dev/null || :`,
	})
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Enabled: true, ActiveVersion: "1.0.0"}
	c.Status = state.Status{ActiveEdition: version.OSS}
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	return i
}

func (i *Installer) config(t *testing.T, change func(*state.Config)) {
	t.Helper()
	c, err := state.LoadConfig(i.Machine.Host.Paths.Config())
	must(t, err)
	change(&c)
	must(t, c.Save(i.Machine.Host.Paths.Config()))
}

// Other people's words are left out wherever they come from, whatever they look like.
func TestTheFileForATicketHoldsNoWordOfOthers(t *testing.T) {
	const word = "hunter2"
	for name, plant := range map[string]func(t *testing.T, i *Installer){
		"an error in the updater's journal": func(*testing.T, *Installer) {
			says("updater", entry(map[string]string{"PRIORITY": "3", "MESSAGE": word})+"\n"+
				entry(map[string]string{"PRIORITY": "3", "MESSAGE": "ask https://bob:" + word + "@proxy.example/: 404"}))
		},
		"an attribute in the updater's journal": func(*testing.T, *Installer) {
			says("updater", entry(map[string]string{"PRIORITY": "4", "MESSAGE": `a hook failed hook="` + word + ` version=1" error=` + word}))
		},
		"a line of another form": func(*testing.T, *Installer) {
			says("updater", entry(map[string]string{"PRIORITY": "6", "MESSAGE": "token: " + word})+"\n"+word)
		},
		"systemd's journal": func(*testing.T, *Installer) {
			says("systemd", entry(map[string]string{"PRIORITY": "4", "UNIT": "teleport.service", "MESSAGE": "ignoring: " + word, "INVOCATION_ID": word}))
		},
		"a property of a unit": func(*testing.T, *Installer) {
			says("show", "Id=teleport.service\nEnvironment=A="+word+"\nExecStart={ argv[]=/x --token="+word+" }\n"+word)
		},
		"the last error": func(t *testing.T, i *Installer) {
			i.config(t, func(c *state.Config) {
				c.Status.LastUpdate = &state.LastUpdate{Time: noon, Target: "1.1.0", Result: state.FailedEarly, Error: word}
			})
		},
		"an error in the history": func(t *testing.T, i *Installer) {
			writeFile(t, i.Machine.Host.Paths.Versions()+"/history.json", `{"switches":[{"time":"2026-03-01T12:00:00Z","cause":"update","by":"`+word+
				`","error":"`+word+`","to":{"version":"1.1.0","edition":"oss"},"result":"failed"}]}`)
		},
		"a template": func(t *testing.T, i *Installer) {
			i.config(t, func(c *state.Config) { c.Spec.URLTemplates = []string{"https://m.example/" + word + "/{{.Version}}"} })
		},
		"the proxy and the group": func(t *testing.T, i *Installer) {
			i.config(t, func(c *state.Config) { c.Spec.Proxy, c.Spec.Group = "https://ann:"+word+"@proxy.example", word })
		},
		"the CA file": func(t *testing.T, i *Installer) {
			i.config(t, func(c *state.Config) { c.Spec.CAFile = "/etc/" + word })
		},
		"a broken configuration": func(t *testing.T, i *Installer) {
			writeFile(t, i.Machine.Host.Paths.Config(), "version: v1\nkind: updates\nspec: {enabled: "+word+"}\n")
		},
		"find's last answer": func(t *testing.T, i *Installer) {
			writeFile(t, i.Machine.Host.Paths.LastAnswer(), `{"proxy":"`+word+`","Version":"1.2.0","token":"`+word+`","asker":{"host":"`+word+`"}}`)
		},
		"the updater's token": func(t *testing.T, i *Installer) { writeFile(t, i.Machine.Host.Paths.Report(), `{"secret":"`+word+`"}`) },
		"the agent's configuration": func(t *testing.T, i *Installer) {
			writeFile(t, i.Machine.Host.Paths.AgentConfig, "teleport: {auth_token: "+word+"}\n")
		},
		"a file beside the links": func(t *testing.T, i *Installer) { writeFile(t, filepath.Join(i.Machine.Host.Paths.LinkDir, word), "") },
	} {
		t.Run(name, func(t *testing.T) {
			i := aHostThatSays(t)
			plant(t, i)
			parts, _ := bundle(t, i)
			for name, text := range parts {
				if strings.Contains(text, word) {
					t.Errorf("%s has it:\n%s", name, text)
				}
				if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) && !strings.Contains(text, "could not be found out") {
					t.Errorf("%s is no JSON:\n%s", name, text)
				}
			}
		})
	}
}

// What the updater and systemd know themselves stays.
func TestTheFileForATicketKeepsWhatHelps(t *testing.T) {
	i := aHostThatSays(t)
	i.config(t, func(c *state.Config) {
		c.Status.LastUpdate = &state.LastUpdate{Time: noon, Target: "1.1.0", Result: state.FailedEarly, Error: "404"}
	})
	must(t, i.finder().lastAnswer(state.Spec{}, find.Answer{Version: "1.2.0", Edition: version.OSS}).Save(i.Machine.Host.Paths.LastAnswer()))
	says("updater", entry(map[string]string{"PRIORITY": "6", "MESSAGE": `version is active version=1.1.0 previous=1.0.0 url="https://x y"`}))
	says("systemd", entry(map[string]string{"PRIORITY": "4", "UNIT": "teleport.service", "EXIT_CODE": "exited", "EXIT_STATUS": "1", "MESSAGE": "x"}))
	says("show", "Id=teleport.service\nActiveState=active\nTimeoutStopUSec=5min\n\nId=teleport-update.timer\nLastTriggerUSec=n/a")
	parts, _ := bundle(t, i)
	for name, wants := range map[string][]string{
		"status.json":         {`"schema_version": 1`, `"agent_version_installed": "1.0.0"`, `"last_result": "failed"`, `"last_error": "(left out)"`, `"type": "`},
		"verify.txt":          {"BAD  active version: (left out)"},
		"history.json":        {`"switches"`},
		"find.json":           {`"version": "1.2.0"`, `"edition": "oss"`},
		"versions.txt":        {"teleport-update ", "Linux", "ID="},
		"journal-updater.txt": {`2026-03-01T12:00:00Z <6> version is active version=1.1.0 previous=1.0.0 url=(left out)`},
		"journal-systemd.txt": {"2026-03-01T12:00:00Z PRIORITY=4 UNIT=teleport.service EXIT_CODE=exited EXIT_STATUS=1\n"},
		"unit-states.txt":     {"Id=teleport.service\nActiveState=active\nTimeoutStopUSec=5min\n\nId=teleport-update.timer\nLastTriggerUSec=n/a\n"},
		"mounts.txt":          {i.Machine.Host.Paths.DataDir + " ext4 rw"},
		"space.txt":           {" free"},
		"files.txt":           {"updates.yaml"},
	} {
		for _, want := range wants {
			if !strings.Contains(parts[name], want) {
				t.Errorf("%s lacks %q:\n%s", name, want, parts[name])
			}
		}
	}
}

func TestTheFileForATicketIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes take seconds to compress")
	}
	i := aHostThatSays(t)
	var journal strings.Builder
	for range 10_000 {
		journal.WriteString(entry(map[string]string{"PRIORITY": "6", "MESSAGE": strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return ' '
			}
			return unicode.ToLower(r)
		}, "a"+rand.Text()+rand.Text()+rand.Text()+rand.Text()+rand.Text()+rand.Text()+rand.Text())}) + "\n")
	}
	says("updater", journal.String()+entry(map[string]string{"PRIORITY": "6", "MESSAGE": "the end"}))
	for n := range 4000 {
		writeFile(t, filepath.Join(i.Machine.Host.Paths.Versions(), rand.Text()+fmt.Sprint(n)), "")
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
	for _, name := range []string{"journal-updater.txt", "unit-states.txt"} {
		if !strings.Contains(parts[name], name+" could not be found out") {
			t.Errorf("%s does not say why it is empty:\n%s", name, parts[name])
		}
	}
	if !strings.Contains(parts["status.json"], `"type": "records_broken"`) {
		t.Errorf("status.json does not say what is broken:\n%s", parts["status.json"])
	}
	if !strings.Contains(parts["files.txt"], "journal.json") || !strings.Contains(parts["space.txt"], "free") {
		t.Errorf("what can be found out is not there: %v", parts)
	}
}

// The agent's own lines come only if they are asked for, and say that nobody has cleaned them.
func TestTheAgentsJournalIsAskedFor(t *testing.T) {
	i := aHostThatSays(t)
	says("agent", "a line of the agent's")
	const name = "agent-journal-not-cleaned.txt"
	without, _ := bundle(t, i)
	if _, ok := without[name]; ok {
		t.Error("it is there without being asked for")
	}
	with := bundleOf(t, i, SupportOptions{AgentJournal: true})
	if text := with[name]; !strings.HasPrefix(text, "NOT CLEANED") || !strings.Contains(text, "a line of the agent's") {
		t.Errorf("%q", text)
	}
}
