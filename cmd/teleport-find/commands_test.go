package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"teleport-update/find/rollout"
	"teleport-update/find/server"
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

// Each part of docs/commands.md is what the commands print after one another.
func TestTheGuideShowsWhatOneSees(t *testing.T) {
	guide := readDoc(t, "rollouts.md")
	if !strings.Contains(guide, schedule) {
		t.Error("docs/rollouts.md has another schedule")
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
	show("status", "plan preview", "channels")
	s.pass(time.Hour + 50*time.Minute)
	s.pass(2 * time.Hour)
	broken := s.canary("staging")
	show("status staging")
	s.pass(10*time.Minute, broken)
	show("status", "start-update prod", "hosts --group staging --state failed")
	show("report", "host "+s.hosts["prod-1"].id, "host "+s.hosts[broken].id)
	show("retry staging --dry-run", `mark-done staging --reason "broken disk"`)
	s.pass(22*time.Hour, broken)
	s.pass(2*time.Hour, broken)
	show("status")
	s.pass(4*time.Hour, broken)
	show("rollback prod --dry-run", `rollback prod --reason "logins are slow"`, "status")
	show("history --limit 8")
	show("export-channels public")
	checkDoc(t, "commands.md", parts)

	// What a program gets has the same facts, and what is asked of a server leaves it
	// as it is.
	for _, command := range []string{"status", "plan preview", "report", "hosts", "host " + s.hosts["prod-1"].id, "history", "channels", "get", "get autoupdate_config", "rollback --dry-run", "set-version 15.2.0 --dry-run", "set-version --newest --dry-run", "enable --dry-run", "apply -f groups.yaml --dry-run", "reset --dry-run", "export-channels public --dry-run", "simulate groups.yaml"} {
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

// The simulation of docs/rollouts.md is what the command prints.
func TestTheGuideShowsASimulation(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "groups.yaml"), schedule)
	s := &station{t: t, dir: dir}
	const command = "simulate groups.yaml --hosts dev=10,staging=50,prod=400 --failure-rate prod=5% --seed 7"
	out := s.run(command)
	if out != s.run(command) {
		t.Error("it says something else the second time")
	}
	checkDoc(t, "rollouts.md", []string{"```text\n$ teleport-find " + command + "\n" + out + "```"})
	for args, want := range map[string]string{
		"simulate":                                       "one file",
		"simulate none.yaml":                             "no such file",
		"simulate groups.yaml --hosts many":              "neither a number",
		"simulate groups.yaml --hosts dev=-1":            "is not a number of hosts",
		"simulate groups.yaml --failure-rate prod=x":     "neither a part",
		"simulate groups.yaml --failure-rate typo=1%":    "has a rate, and no hosts",
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

// docs is the folder of the guides, wherever a test is.
var docs = func() string {
	dir, err := filepath.Abs("../../docs")
	if err != nil {
		panic(err)
	}
	return dir
}()

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

// What is exported is what the server serves, path by path; another export writes what
// has changed, and nothing else.
func TestExportedChannelsAreThoseOfTheServer(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 1, "prod": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	files := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(s.dir, "public"))))
	defer files.Close()
	get := func(url string) string {
		t.Helper()
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 200 {
			return fmt.Sprint(resp.StatusCode)
		}
		return string(body)
	}
	same := func(want string) {
		t.Helper()
		for _, below := range []string{"/v1/default/", "/v1/webapi/automaticupgrades/channel/default/"} {
			for _, what := range []string{"version", "critical"} {
				if server, file := get(s.http.URL+below+what), get(files.URL+below+what); server != file || what == "version" && file != want {
					t.Errorf("%s%s: the server says %q, the file %q; want %q", below, what, server, file, want)
				}
			}
		}
	}
	if out := s.run("export-channels public --dry-run"); !strings.Contains(out, "would be written") {
		t.Errorf("a dry run says\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "public")); err == nil {
		t.Error("a dry run has written files")
	}
	s.run("export-channels public")
	same("404")
	s.run("apply -f groups.yaml")
	s.run("set-version 15.2.0 --start 15.1.1")
	s.tick()
	s.run("export-channels public")
	same("15.1.1")
	s.run("set-version 15.3.0 --schedule immediate")
	s.tick()
	if out := s.run("export-channels public"); !strings.Contains(out, "public/v1/default/critical") || strings.Contains(out, "unchanged") {
		t.Errorf("it says\n%s", out)
	}
	same("15.3.0")
	if out := s.run("export-channels public"); strings.Count(out, "unchanged") != 4 {
		t.Errorf("nothing has changed, and it says\n%s", out)
	}
	// A version that is taken back goes from the files too.
	s.run("suspend")
	s.run("export-channels public")
	same("404")
	if out := s.run("export-channels groups.yaml"); !strings.Contains(out, "(exit code 1)") {
		t.Errorf("a file in the way:\n%s", out)
	}
	for _, args := range []string{"export-channels", "export-channels a b", "channels x"} {
		if out := s.run(args); !strings.Contains(out, "(exit code 2)") {
			t.Errorf("%s:\n%s", args, out)
		}
	}
}

// Of the two files of a channel, who reads between the writes finds none that makes an
// updater move sooner than before and after.
func TestTheOrderOfExportedFiles(t *testing.T) {
	for _, tc := range []struct {
		critical bool
		want     string
	}{{true, "version critical"}, {false, "critical version"}} {
		done, err := exportChannel(filepath.Join(t.TempDir(), "a"), server.AdminChannel{Name: "a", Version: "15.1.1", Critical: tc.critical}, false)
		var order []string
		for _, f := range done {
			order = append(order, filepath.Base(f.File))
		}
		if got := strings.Join(order, " "); err != nil || got != tc.want {
			t.Errorf("critical %t: %s, %v; want %s", tc.critical, got, err, tc.want)
		}
	}
}

// The commands over an admin API, whatever is behind it.
func TestWhoAskedIsShownAsUnconfirmed(t *testing.T) {
	dir := t.TempDir()
	listener, err := server.ListenAdmin(t.Context(), filepath.Join(dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/asked" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, `{"unconfirmed":true,"since":"2025-06-02T10:00:00Z","questions":12,"groups":[{"group":"","questions":2,"hosts":1,"versions":{"":2}},{"group":"dev","questions":10,"hosts":4,"versions":{"15.1.1":10}}],"unknown_groups":{"typo\u001b[2J":3}}`)
	}))
	t.Setenv("TELEPORT_FIND_ADMIN_SOCKET", filepath.Join(dir, "admin.sock"))
	s := &station{t: t, dir: dir}
	want := "unconfirmed: 12 questions since Mon 2025-06-02 10:00 UTC\n\n" +
		"GROUP  QUESTIONS  HOSTS, ABOUT  TOLD\n" +
		"-              2             1  no version: 2\n" +
		"dev           10             4  15.1.1: 10\n" +
		"group \"typo\\x1b[2J\" is in no schedule: 3 questions\n"
	if out := s.run("asked"); out != want {
		t.Errorf("it says\n%s\nwant\n%s", out, want)
	}
	// A server of another version, or something else.
	for _, command := range []string{"status", "history", "hosts", "channels", "report", "reset", "get", "plan preview"} {
		if out := s.run(command); !strings.Contains(out, "is that the socket of a find server?\n(exit code 1)") {
			t.Errorf("%s:\n%s", command, out)
		}
	}
}

// What hosts say of themselves does not drive the terminal of who looks.
func TestHostsDoNotDriveTheTerminal(t *testing.T) {
	var out bytes.Buffer
	s := fleetStatus{FailedHosts: []failedHost{{ID: "a\x1b[2J", Hostname: "web\u202e1", Error: "line 1\nline 2\x07"}}}
	s.Outlook = rollout.Outlook{Word: "halted", Sentence: "Group \x1b]0;x\x07 failed.", Commands: []string{"retry 'a\x1b[2J'"}}
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

// A bar is full with the last host only, and not empty from the first one on.
func TestBars(t *testing.T) {
	for _, tc := range []struct{ part, whole, want int }{{0, 0, 0}, {0, 10, 0}, {1, 1000, 1}, {500, 1000, 10}, {999, 1000, 19}, {1000, 1000, 20}, {11, 10, 20}, {3, 0, 0}} {
		if got := strings.Count(bar(tc.part, tc.whole), "#"); got != tc.want || len(bar(tc.part, tc.whole)) != barWidth+2 {
			t.Errorf("%d of %d is %s; want %d", tc.part, tc.whole, bar(tc.part, tc.whole), tc.want)
		}
	}
}

// More versions than fit are one column, and numbers stand at the right.
func TestTheMatrixOfVersions(t *testing.T) {
	versions := make(map[rollout.Semver]int)
	for i := range 12 {
		versions[rollout.Semver(fmt.Sprintf("1.%d.0", i))] = 12 - i
	}
	versions[""] = 100
	var out bytes.Buffer
	if err := versionTable(fleetStatus{AdminOverview: server.AdminOverview{Overview: rollout.Overview{Groups: []rollout.GroupOverview{{Name: "dev", Versions: versions}, {Name: "a long name"}}}}}).print(&out); err != nil {
		t.Fatal(err)
	}
	want := "HOSTS BY VERSION  no agent  1.0.0  1.1.0  1.2.0  1.3.0  1.4.0  1.5.0  1.6.0  others\n" +
		"dev                    100     12     11     10      9      8      7      6      15\n" +
		"a long name              0      0      0      0      0      0      0      0       0\n"
	if out.String() != want {
		t.Errorf("it is\n%s\nwant\n%s", out.String(), want)
	}
}

// A watch prints what has changed, waits for a server that is away, and ends when it is
// told to.
func TestAWatchOfTheStatus(t *testing.T) {
	dir := t.TempDir()
	a := &admin{t: t, dir: dir}
	start := func() *process {
		return serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"), "--admin-socket", a.socket())
	}
	s := start()
	var out, log buffer
	cmd := exec.Command(binary(t), "status", "--watch", "--every", "20ms", "--admin-socket", a.socket())
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	wait := func(what string, seen func() bool) {
		t.Helper()
		s.until(what+"\n"+out.String()+log.String(), seen)
	}
	wait("there is no first status", func() bool { return strings.HasPrefix(out.String(), "unset: ") })
	a.run("", "set-version", "15.1.1", "--schedule", "immediate")
	wait("a change is not shown", func() bool { return strings.Contains(out.String(), "\n\ndisabled: ") })
	s.stop(os.Kill)
	wait("that the server is away is not said", func() bool { return strings.Contains(log.String(), "no find server listens") })
	s = start()
	wait("the server is not found again", func() bool { return strings.Count(out.String(), "\ndisabled: ") == 2 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if got := strings.Count(out.String(), "unset: "); got != 1 {
		t.Errorf("what has not changed is printed %d times", got)
	}
}

// Examples of the rollout's rules, as somebody at the command line sees them.
func TestExamplesFromTheCommandLine(t *testing.T) {
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
		{"5, suspended and enabled is suspended", "suspend", 0, "", "updates are suspended by autoupdate_config"},
		{"5, it acts at once", "status", 0, "", "suspended: Updates are suspended: no host updates by itself, and no group goes on.\n    teleport-find enable\n"},
		{"5, and back", "enable", 0, "", "autoupdate_config changed"},
		{"6, a group that is not there", "host " + hostIDOf(s, "typo-1"), 0, "", "The host names the group typo, which the schedule does not have: the last one, prod, counts."},
		{"6, it is counted and shown", "status", 0, "", `group "typo" is in no schedule: 1 hosts name it`},
		{"2, a host of ten that breaks is within 90 %", "status", 2*time.Hour + 10*time.Minute, "dev-3", "waiting: Group staging starts at Mon 2025-06-02 15:00 UTC."},
		{"2, and is shown", "status dev", 0, "dev-3", "9 of 10"},
		{"3, the target edited in mid-rollout: all unstarted", "set-version 15.3.0 --start 15.1.1", 10 * time.Minute, "", "hosts of dev are told 15.1.1 oss, and to stay as they are"},
		{"4, the edit is in force with the next rollout", "status", 0, "", "Group dev starts at Tue 2025-06-03 13:00 UTC."},
		{"10, immediate has no groups", "set-version 15.3.0 --schedule immediate", 10 * time.Minute, "", "hosts are told 15.3.0 oss, and to update"},
		{"10, mark-done is refused with a reason", "mark-done dev", 0, "", "version 15.3.0 is on the schedule immediate, which has no groups: every host is told to update at once; nothing was written\n(exit code 1)"},
		{"10, every host is told", "host " + hostIDOf(s, "typo-1"), 0, "", "is told 15.3.0 oss, and to update"},
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

func hostIDOf(s *station, name string) string { return s.hosts[name].id }
