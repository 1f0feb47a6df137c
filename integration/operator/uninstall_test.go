//go:build hosts

package operator

import (
	"strings"
	"testing"
)

func TestUninstallAsksOnATerminalAndARefusedOneChangesNothing(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	before := s.Look()
	terminal := func(answer string) string {
		t.Helper()
		return s.Try("sh", "-c", "printf '"+answer+"\\n' | script -qec '"+updater+" uninstall' /dev/null; true").Stdout
	}
	if out := s.Must(updater, "uninstall", "--dry-run"); !strings.Contains(out, "Agent: version 1.0.0 goes on as it runs") || !strings.Contains(out, "Nothing was changed.") {
		t.Errorf("the dry run says:\n%s", out)
	}
	s.Same("a dry run", before)
	if out := terminal("n"); !strings.Contains(out, "Uninstall? [y/N]") || !strings.Contains(out, "uninstall was not confirmed") {
		t.Errorf("on a terminal it says:\n%s", out)
	}
	s.Same("an uninstall that was not confirmed", before)

	// What it could not leave whole, it does not begin to leave.
	s.Must("mv", programs+"/1.0.0/bin/tsh", "/root/tsh")
	before = s.Look()
	s.Fails(1, "keeping version 1.0.0 as plain files is refused", updater, "uninstall")
	s.Same("an uninstall that is refused", before)
	if !s.Status().UpdatesEnabled {
		t.Error("updates are off")
	}
	s.Must("mv", "/root/tsh", programs+"/1.0.0/bin/tsh")

	if out := terminal("y"); !strings.Contains(out, "The updater is uninstalled.") || !strings.Contains(out, "no agent: systemctl disable --now teleport.service") {
		t.Errorf("a confirmed one says:\n%s", out)
	}
	if s.Exists(store) {
		t.Error("the store is still there")
	}
}

func TestTheHistoryAndTheSummaryOfAHost(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.Must(updater, "rollback")
	text := s.Must(updater, "history", "--format", "text")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 4 {
		t.Fatalf("the history says:\n%s", text)
	}
	for n, want := range [][]string{{"rollback", "1.1.0 ", "1.0.0 ", "downtime"}, {"update", "timer", "1.0.0 ", "1.1.0 ", "backup", "watch"}, {"enable", " 1.0.0 ", "succeeded", "download"}} {
		for _, word := range want {
			if !strings.Contains(lines[n+1], word) {
				t.Errorf("line %d lacks %q: %s", n+1, word, lines[n+1])
			}
		}
	}
	if r := s.Status(); r.LastSuccess == nil || !r.LastSuccess.Equal(*r.UpdateTimeLast) {
		t.Errorf("status: last success %v, last attempt %v", r.LastSuccess, r.UpdateTimeLast)
	}
	out := s.Must("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", "/run/teleport-update/status.json")
	if !strings.Contains(out, `"state": "held"`) || !strings.Contains(out, `"agent_version_running": "1.0.0"`) {
		t.Errorf("the summary says:\n%s", out)
	}
	s.Must("sh", "-c", "cd /root && "+updater+" support --output ticket.tar.gz && tar -tzf ticket.tar.gz | grep -q unit-states.txt")
	if journal := s.Must("tar", "-xzOf", "/root/ticket.tar.gz", "teleport-update-support/journal-updater.txt"); !strings.Contains(journal, "version is active version=1.1.0") {
		t.Errorf("the journal in the file for a ticket says:\n%s", journal)
	}
}
