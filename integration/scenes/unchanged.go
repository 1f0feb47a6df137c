package scenes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"teleport-update/integration/host"
)

// Refused runs a command that must fail with 1, say one thing, and leave the
// host as it was.
func (s *Scene) Refused(name string, says []string, args ...string) (text string) {
	s.T.Helper()
	before := s.Look()
	r := s.Try(args...)
	s.Same(name, before)
	if r.Code != 1 {
		s.T.Errorf("%s: exit code %d; want 1", name, r.Code)
	}
	var errs []string
	for line := range strings.Lines(r.Stderr) {
		if text, ok := strings.CutPrefix(line, "error: "); ok {
			errs = append(errs, strings.TrimSpace(text))
		}
	}
	if len(errs) != 1 {
		s.T.Errorf("%s: want one error, found %d:\n%s%s", name, len(errs), r.Stdout, r.Stderr)
		return ""
	}
	s.T.Logf("%s (%v):\n\t%s", name, r.Took, errs[0])
	for _, want := range says {
		if !strings.Contains(errs[0], want) {
			s.T.Errorf("%s: the error does not say %q:\n%s", name, want, errs[0])
		}
	}
	if !strings.Contains(errs[0], "nothing was changed") && !strings.Contains(errs[0], "the agent stays on version ") &&
		!strings.Contains(errs[0], "the agent is on version ") {
		s.T.Errorf("%s: the error does not say what the host is on:\n%s", name, errs[0])
	}
	for _, p := range Unclear(errs[0]) {
		s.T.Errorf("%s: %s:\n%s", name, p, errs[0])
	}
	return errs[0]
}

// Same asserts that the host is as it was, but for a version that failed: that stays on
// disk for its next attempt.
func (s *Scene) Same(name string, before host.Snapshot) {
	s.T.Helper()
	after := s.Look()
	if diff := before.Without(s.failedTree()...).Diff(after); len(diff) > 0 {
		s.T.Errorf("%s: the host changed:\n%s", name, strings.Join(diff, "\n"))
	}
}

// failedTree are the folders of the version that failed, if one did.
func (s *Scene) failedTree() []string {
	if s.Exists(Store + "/updates.yaml") {
		if failed := failedVersion.FindStringSubmatch(s.Read(Store + "/updates.yaml")); failed != nil {
			return []string{Store + "/" + failed[1], Programs + "/" + failed[1]}
		}
	}
	return nil
}

var failedVersion = regexp.MustCompile(`(?m)^  failed:\n    version: (\S+)$`)

// jargon are words that say nothing to an operator.
var jargon = []string{"%!", "<nil>", "goroutine", "context ", "dial tcp", "net/http", "tls:", "x509:", "json:", "unmarshal", "template: url",
	"invalid character", "EOF", "0x", "Get \"", "lookup ", "fork/exec"}

// Unclear says what is wrong with the text of an error.
func Unclear(text string) (problems []string) {
	for _, word := range jargon {
		if strings.Contains(text, word) {
			problems = append(problems, fmt.Sprintf("the error says %q", word))
		}
	}
	said := map[string]bool{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ';' }) {
		part = strings.TrimSpace(part)
		for before := range said {
			if len(part) > 12 && (strings.HasPrefix(part, before) || strings.HasPrefix(before, part)) {
				problems = append(problems, fmt.Sprintf("the error says %q twice", part))
			}
		}
		if len(part) > 12 {
			said[part] = true
		}
	}
	return problems
}

// Look is the host as far as a command that fails must leave it alone: files,
// the agent's process, units. Left out are outcome, caches, locks, downloads to
// be continued, what the agent itself writes, its database's last backup, and a version
// that failed.
func (s *Scene) Look() host.Snapshot {
	s.T.Helper()
	tree := s.Tree("/etc", "/usr/local", "/opt", "/root", "/tmp", "/var/lib/teleport").Without(
		Store+"/updates.yaml", Store+"/find.json", Store+"/history.json", Programs+"/update_config.yaml", Store+"/update.lock", Store+"/fetch.lock", Store+"/partial",
		"/var/lib/teleport/proc", Store+"/1.0.0/backup").Without(s.failedTree()...)
	tree["configuration"] = s.configuration()
	for _, property := range []string{"MainPID", "InvocationID", "NRestarts", "ActiveState", "UnitFileState"} {
		tree["agent "+property] = s.Show("teleport", property)
	}
	tree["units"] = s.Must("systemctl", "list-units", "--all", "--plain", "--no-legend", "teleport*")
	if names, err := s.Names(Store + "/partial"); err == nil {
		for _, name := range names {
			if strings.HasPrefix(name, ".") {
				tree[Store+"/partial/"+name] = "a leftover"
			}
		}
	}
	return tree
}

// configuration is updates.yaml without its status; a file that says nothing is
// none.
func (s *Scene) configuration() string {
	if !s.Exists(Store + "/updates.yaml") {
		return ""
	}
	text, _, _ := strings.Cut(s.Read(Store+"/updates.yaml"), "status:")
	if strings.Join(strings.Fields(text), " ") == `version: v1 kind: agent_versions spec: proxy: "" enabled: false pinned: false` {
		return ""
	}
	return text
}

// Configure writes updates.yaml, as a person does with an editor.
func (s *Scene) Configure(text string) {
	s.T.Helper()
	if err := s.WriteFile(Store+"/updates.yaml", []byte(text), 0o600); err != nil {
		s.T.Fatal(err)
	}
}

// Untouched runs change, which must leave the agent, its configuration, its data
// and the updater's state alone.
func (s *Scene) Untouched(what string, change func()) {
	s.T.Helper()
	paths := []string{"/etc/teleport.yaml", "/usr/local", "/var/lib/teleport"}
	except := []string{AgentState, Store + "/update.lock"} // the lock says who held it last
	process, before := s.AgentProcess(), s.Tree(paths...)
	change()
	if diff := before.Without(except...).Diff(s.Tree(paths...).Without(except...)); len(diff) > 0 {
		s.T.Errorf("%s changed:\n%s", what, strings.Join(diff, "\n"))
	}
	if now := s.AgentProcess(); now != process {
		s.T.Errorf("%s: the agent was %s and is %s", what, process, now)
	}
}

// TheHost is what an updater might touch.
var TheHost = []string{
	"/etc", "/opt", "/root", "/tmp", "/usr/bin", "/usr/lib/systemd", "/usr/local", "/var/lib/systemd", "/var/lib/teleport", "/var/tmp",
}

// AgentState is what a running agent changes all the time.
const AgentState = "/var/lib/teleport/proc"

// OnlyAgentsDataIsLeft asserts that nothing in the agent's folder is the
// updater's.
func (s *Scene) OnlyAgentsDataIsLeft() {
	s.T.Helper()
	names, err := s.Names("/var/lib/teleport")
	if err != nil {
		s.T.Fatal(err)
	}
	if !slices.Equal(names, []string{"host_uuid", "proc"}) {
		s.T.Errorf("/var/lib/teleport holds %v", names)
	}
	if units := s.Must("systemctl", "list-units", "--all", "--plain", "--no-legend", "teleport-update*"); units != "" {
		s.T.Errorf("units are left:\n%s", units)
	}
}
