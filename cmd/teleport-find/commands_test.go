package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/internal/golden"
)

const schedule = `kind: autoupdate_config
metadata:
  name: autoupdate-config
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - name: dev
        days: ["*"]
        start_hour: 13
      - name: staging
        days: ["Mon", "Tue", "Wed", "Thu"]
        start_hour: 15
        canary_count: 3
      - name: prod
        days: ["Mon", "Tue", "Wed", "Thu"]
        start_hour: 15
        wait_hours: 24
        max_in_flight: 10%
        max_failed_before_halt: 1%
`

// What the commands print after one another is in testdata/story.txt. docs/find.md shows the group that is halted, and how it goes on.
func TestTheGuideShowsWhatOneSees(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	guide := readDoc(t, "find.md")
	if !strings.Contains(guide, schedule) {
		t.Error("docs/find.md has another schedule")
	}
	s := newStation(t, map[string]int{"dev": 4, "staging": 8, "prod": 20})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	s.run("set-version 15.1.1 --schedule immediate")
	s.tick()

	var parts []string
	show := func(commands ...string) {
		t.Helper()
		text := ""
		for _, command := range commands {
			text += "$ teleport-find " + command + "\n" + s.run(command)
		}
		parts = append(parts, "```text\n"+text+"```")
	}
	show("status", "apply -f groups.yaml", "set-version 15.2.0 --dry-run", `set-version 15.2.0 --reason "CVE-2025-1234"`)
	s.pass(10 * time.Minute)
	show("status", "plan", "channels")
	s.pass(time.Hour + 50*time.Minute)
	s.pass(2 * time.Hour)
	broken := s.canary("staging")
	show("status staging")
	s.pass(10*time.Minute, broken)
	show("status", "rollout start prod", "hosts --group staging --state failed")
	show("hosts "+s.hosts["prod-1"].id, "hosts "+s.hosts[broken].id)
	show("rollout retry staging --dry-run", `rollout done staging --reason "broken disk"`)
	s.pass(22*time.Hour, broken)
	s.pass(2*time.Hour, broken)
	show("status")
	s.pass(4*time.Hour, broken)
	show("rollout back prod --dry-run", `rollout back prod --reason "logins are slow"`, "status")
	show("history --limit 8")
	show("channels --export public")
	golden.File(t, filepath.Join(testdata, "story.txt"), strings.Join(parts, "\n"))
	checkDoc(t, "find.md", []string{parts[3], parts[5]})

	// What a program gets has the same facts, and what is asked of a server leaves it
	// as it is.
	for _, command := range []string{"status", "plan", "hosts", "hosts " + s.hosts["prod-1"].id, "history", "channels", "get", "get autoupdate_config", "rollout back --dry-run", "set-version 15.2.0 --dry-run", "set-version --newest --dry-run", "mode enabled --dry-run", "apply -f groups.yaml --dry-run", "rollout reset --dry-run", "channels --export public --dry-run", "simulate groups.yaml"} {
		for format, begins := range map[string]string{"json": "{[", "yaml": "abcdefghijklmnopqrstuvwxyz-[", "table": ""} {
			out := s.run(command + " -o " + format)
			if out == "" || strings.Contains(out, "exit code") || begins != "" && !strings.ContainsRune(begins, rune(out[0])) {
				t.Errorf("%s -o %s:\n%s", command, format, out)
			}
		}
	}
	if again := s.run("status"); !strings.HasSuffix(parts[7], again+"```") {
		t.Errorf("a dry run has changed something:\n%s", again)
	}
}

// A simulation prints the same each time: testdata/simulation.txt.
func TestTheGuideShowsASimulation(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "groups.yaml"), schedule)
	s := &station{t: t, dir: dir}
	const command = "simulate groups.yaml --hosts dev=10,staging=50,prod=400 --failure-rate prod=5% --seed 7"
	out := s.run(command)
	if out != s.run(command) {
		t.Error("it says something else the second time")
	}
	golden.File(t, filepath.Join(testdata, "simulation.txt"), "$ teleport-find "+command+"\n"+out)
	for args, want := range map[string]string{
		"simulate":                                       "one file",
		"simulate none.yaml":                             "no such file",
		"simulate groups.yaml --hosts many":              "neither a number",
		"simulate groups.yaml --hosts dev=-1":            "is not a number of hosts",
		"simulate groups.yaml --failure-rate prod=x":     "neither a part",
		"simulate groups.yaml --failure-rate typo=1%":    "has a rate, but no hosts",
		"simulate groups.yaml --loss-rate 101%":          "a part from",
		"simulate groups.yaml --begin Monday":            "is not a time",
		"simulate groups.yaml --target newest":           "--target",
		"simulate groups.yaml --poll 0s":                 "too short",
		"simulate groups.yaml --jitter -1":               "--jitter",
		"simulate groups.yaml --for 1h --begin Mon -o x": "none of table",
	} {
		if out := s.run(args); !strings.Contains(out, want) || !strings.Contains(out, "(exit code ") {
			t.Errorf("%s:\n%s\nwant %s", args, out, want)
		}
	}
}

// canary is one of a group, by name.
func (s *station) canary(group string) string {
	s.t.Helper()
	out := s.run("get autoupdate_agent_rollout -o yaml")
	_, canaries, _ := strings.Cut(out, "canaries:")
	for _, name := range s.names {
		if strings.HasPrefix(name, group+"-") && strings.Contains(canaries, "hostname: "+name+"\n") {
			return name
		}
	}
	s.t.Fatalf("there is no canary of %s:\n%s", group, out)
	return ""
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// docs and testdata are folders of the guides and of golden files, wherever a test is.
var docs, testdata = absolute("../../docs"), absolute("testdata")

func absolute(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		panic(err)
	}
	return dir
}

// checkDoc compares the blocks of a guide that begin with a command, or writes them.
func checkDoc(t *testing.T, name string, parts []string) {
	t.Helper()
	const begin, end = "```text\n$ ", "```"
	sections := strings.Split(readDoc(t, name), begin)
	if len(sections) != len(parts)+1 {
		t.Fatalf("docs/%s has %d blocks that begin with a command; want %d", name, len(sections)-1, len(parts))
	}
	for i, part := range parts {
		part = strings.TrimPrefix(part, begin)
		old, rest, _ := strings.Cut(sections[i+1], end)
		if old+end != part && !*writeDocs {
			t.Errorf("docs/%s shows, in block %d,\n%s\nand what is printed is\n%s\n(go test -run %s ./cmd/teleport-find -write-docs writes it)", name, i+1, old, part, t.Name())
		}
		sections[i+1] = part + rest
	}
	if *writeDocs {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(strings.Join(sections, begin)), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Println("wrote docs/" + name)
	}
}

// A server of another version, or something else.
func TestAnotherServerIsNamed(t *testing.T) {
	dir := t.TempDir()
	listener, err := admin.Listen(t.Context(), filepath.Join(dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go http.Serve(listener, http.NotFoundHandler())
	t.Setenv("TELEPORT_FIND_ADMIN_SOCKET", filepath.Join(dir, "admin.sock"))
	s := &station{t: t, dir: dir}
	for _, command := range []string{"status", "history", "hosts", "channels", "rollout reset", "get", "plan"} {
		if out := s.run(command); !strings.Contains(out, "is that the socket of a find server?\n(exit code 1)") {
			t.Errorf("%s:\n%s", command, out)
		}
	}
}

// What hosts say of themselves does not drive the terminal of who looks.
func TestHostsDoNotDriveTheTerminal(t *testing.T) {
	var out bytes.Buffer
	s := fleetStatus{FailedHosts: []failedHost{{ID: "a\x1b[2J", Hostname: "web\u202e1", Error: "line 1\nline 2\x07"}}}
	s.Outlook = rollout.Outlook{Word: "halted", Sentence: "Group \x1b]0;x\x07 failed.", Commands: []rollout.Choice{{Command: "retry 'a\x1b[2J'", Does: "x\x1b[2J"}}}
	s.Groups = []rollout.GroupOverview{{Name: "g\x9b2J", State: rollout.Active, Versions: map[rollout.Semver]int{"1.0.0": 1}, Waits: "x\r"}}
	s.Omitted, s.Unmatched = map[string]int{"reason": 2}, map[string]int{"typo\x1b[2J": 3}
	if err := writeStatus(&out, s); err != nil {
		t.Fatal(err)
	}
	if at := strings.IndexFunc(strings.ReplaceAll(out.String(), "\n", ""), func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }); at >= 0 {
		t.Errorf("there is a control character in\n%q", out.String())
	}
	for _, want := range []string{"halted: Group", "line 1 …", "not counted: 2 (reason)", `group "typo\x1b[2J" is in no schedule: 3 hosts name it`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

// Examples of the rollout's rules, as somebody at the command line sees them.
func TestExamplesFromTheCommandLine(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	s := newStation(t, map[string]int{"dev": 10, "prod": 4, "typo": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	write(t, filepath.Join(s.dir, "edited.yaml"), strings.Replace(schedule, `days: ["*"]`, `days: ["Tue", "Wed", "Thu", "Fri"]`, 1))
	for _, step := range []struct {
		example, command string
		pass             time.Duration
		breaks           string
		want             string
	}{
		{"a version", "apply -f groups.yaml", 0, "", "autoupdate_config created"},
		{"a version", "set-version 15.2.0 --start 15.1.1", 10 * time.Minute, "", "the group starts Mon 2025-06-02 13:00 UTC"},
		{"4, days edited in mid-rollout: nothing until the next rollout", "apply -f edited.yaml", 0, "", "these wait for the next rollout, which another version or a reset begins: spec.agents.schedules.regular"},
		{"4, and the turn is as before", "status", 0, "", "waiting: Group dev starts at Mon 2025-06-02 13:00 UTC."},
		{"5, suspended and enabled is suspended", "mode suspended", 0, "", "updates are suspended by autoupdate_config"},
		{"5, it acts at once", "status", 0, "", "suspended: Updates are suspended: no host updates by itself, and no group goes on.\n    teleport-find mode enabled  (goes on with 15.2.0, each group in its turn)\n"},
		{"5, and back", "mode enabled", 0, "", "autoupdate_config changed"},
		{"6, a group that is not there", "hosts " + hostIDOf(s, "typo-1"), 0, "", "The host names the group typo, which is not in the schedule. It gets the answer of the last group, prod."},
		{"6, it is counted and shown", "status", 0, "", `group "typo" is in no schedule: 1 host names it`},
		{"2, a host of ten that breaks is within 90 %", "status", 2*time.Hour + 10*time.Minute, "dev-3", "waiting: Group staging starts at Mon 2025-06-02 15:00 UTC."},
		{"2, and is shown", "status dev", 0, "dev-3", "9 of 10"},
		{"3, the target edited in mid-rollout: all unstarted", "set-version 15.3.0 --start 15.1.1", 10 * time.Minute, "", "hosts of dev are told 15.1.1 oss, and to stay as they are"},
		{"4, the edit is in force with the next rollout", "status", 0, "", "Group dev starts at Tue 2025-06-03 13:00 UTC."},
		{"10, immediate has no groups", "set-version 15.3.0 --schedule immediate", 10 * time.Minute, "", "hosts are told 15.3.0 oss, and to update"},
		{"10, mark-done is refused with a reason", "rollout done dev", 0, "", "version 15.3.0 is on the schedule immediate, which has no groups: every host is told to update at once; nothing was written\n(exit code 1)"},
		{"10, every host is told", "hosts " + hostIDOf(s, "typo-1"), 0, "", "is told 15.3.0 oss, and to update"},
	} {
		if step.pass > 0 && strings.HasPrefix(step.command, "status") {
			s.pass(step.pass, step.breaks)
		}
		if out := s.run(step.command); !strings.Contains(out, step.want) {
			t.Errorf("example %s: %s says\n%s\nwant %s", step.example, step.command, out, step.want)
		}
		if step.pass > 0 && !strings.HasPrefix(step.command, "status") {
			s.pass(step.pass, step.breaks)
		}
	}
}

// What is not there is said not to be there, and is no empty answer.
func TestWhatIsNotThere(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 2, "prod": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	s.run("apply -f groups.yaml")
	s.run("set-version 15.2.0 --start 15.1.1")
	s.pass(10*time.Minute, "")
	const stranger = "99999999-0000-4000-8000-000000000000"
	for command, want := range map[string]string{
		"hosts " + stranger:                          "no host " + stranger + " has joined: nothing is known of it",
		"hosts " + stranger + " --group dev":         "(exit code 1)",
		"hosts " + stranger + " --as-if --group dev": "host " + stranger + " would be told 15.1.1 oss, and to stay as it is",
		"hosts dev-1":                                "The host is in group dev.",
		"hosts " + hostIDOf(s, "dev-1"):              "The host is in group dev.",
		"hosts nobody":                               "no host has reported the hostname \"nobody\": nothing is known of it",
		"hosts nobody --as-if":                       "would be told",
		"hosts --group nope":                         "no host names the group \"nope\", and the rollout has none of that name (there are: dev, staging, prod)\n(exit code 1)",
		"hosts --group staging":                      "HOST",
		"hosts --group dev":                          "dev-1",
		"get autoupdate_agent_report":                "no server has written an autoupdate_agent_report in the last three minutes",
		"get agent_rollout_plan":                     "agent_rollout_plan/GROUP",
		"get autoupdate_config/x":                    "get takes one of",
	} {
		if out := s.run(command); !strings.Contains(out, want) {
			t.Errorf("%s says\n%s\nwant %s", command, out, want)
		}
	}
	// Two hosts of one name are listed, and neither is chosen.
	twin := s.hosts["prod-1"]
	twin.sequence++
	s.post(find.HeartbeatPath, twin.secret, find.Heartbeat{HostID: twin.id, Sequence: twin.sequence, BootID: "boot of prod-1", Hostname: "dev-1", Group: "prod", Version: "15.1.1", Edition: "oss"})
	if out := s.run("hosts dev-1"); !strings.Contains(out, hostIDOf(s, "dev-1")) || !strings.Contains(out, twin.id) || !strings.Contains(out, "2 hosts have reported the hostname") {
		t.Errorf("it says\n%s", out)
	}
}

func hostIDOf(s *station, name string) string { return s.hosts[name].id }
