package installer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// verifyOf is what verify finds on a host with a version, which is broken before.
func verifyOf(t *testing.T, breaks func(*Installer)) (findings []view.Finding, status view.Status) {
	t.Helper()
	i := testInstaller(t)
	ownProc(t, i)
	whole(t, i, version.Release{Version: "1.1.0", Edition: version.OSS})
	c := configOf(t, i)
	c.Spec.Proxy, c.Spec.Enabled, c.Spec.ActiveVersion = "http://127.0.0.1:1", true, "1.1.0"
	c.Status = state.Status{ActiveEdition: version.OSS}
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	i.Machine.Connect = sightOf(i, nil)
	breaks(i)
	findings, err := i.Verify(t.Context())
	must(t, err)
	status, err = i.Status(t.Context(), StatusOptions{Offline: true})
	must(t, err)
	return findings, status
}

// about are the findings with a subject, as verify prints them.
func about(findings []view.Finding, subject string) (lines []string) {
	for _, f := range findings {
		var b strings.Builder
		if view.WriteFindings(&b, []view.Finding{f}); f.Subject == subject {
			lines = append(lines, strings.TrimSuffix(b.String(), "\n"))
		}
	}
	return lines
}

// What cannot be read has a line of its own, and keeps no other line from being printed.
func TestVerifyPrintsItsLinesWhereRecordsCannotBeRead(t *testing.T) {
	t.Run("updates.yaml", func(t *testing.T) {
		findings, status := verifyOf(t, func(i *Installer) { writeFile(t, i.Machine.Host.Paths.Config(), "{[ broken\n") })
		if c := status.Conditions[0]; c.Type != decision.RecordsBroken {
			t.Errorf("status says %+v", c)
		} else if want := []string{"BAD  records: " + c.Message}; !slices.Equal(about(findings, "records"), want) {
			t.Errorf("verify says %q, want %q", about(findings, "records"), want)
		}
		if want := []string{"ok   version 1.1.0: whole"}; !slices.Equal(about(findings, "version 1.1.0"), want) {
			t.Errorf("of the version on disk verify says %q, want %q", about(findings, "version 1.1.0"), want)
		}
		if lines := about(findings, "active version"); lines != nil {
			t.Errorf("nobody can tell which version is active, and verify says %q", lines)
		}
	})
	t.Run("the store", func(t *testing.T) {
		findings, _ := verifyOf(t, func(i *Installer) {
			i.Machine.Host.Store.Programs = filepath.Join(filepath.Dir(i.Machine.Host.Paths.DataDir), "programs")
			writeFile(t, i.Machine.Host.Store.Programs, "a file")
		})
		if lines := about(findings, "versions"); len(lines) != 1 || !strings.HasPrefix(lines[0], "??   versions: list versions: ") {
			t.Errorf("of the store verify says %q", lines)
		}
		if len(about(findings, "timer")) != 1 {
			t.Errorf("verify says nothing of the timer: %+v", findings)
		}
	})
}

// Programs that cannot be tried are not said to be open to other users.
func TestVerifyTriesNoProgramsOfAVersionThatIsGone(t *testing.T) {
	findings, _ := verifyOf(t, func(i *Installer) { must(t, os.RemoveAll(filepath.Join(i.Machine.Host.Paths.Versions(), "1.1.0"))) })
	for _, subject := range []string{"other users", "links and units"} {
		if lines := about(findings, subject); lines != nil {
			t.Errorf("of %s verify says %q", subject, lines)
		}
	}
}

// One reason is one condition in status. Each subject that could not be looked at for that reason has its line
// in verify, and none of them is ok.
func TestVerifyCallsNothingOKThatItCouldNotLookAt(t *testing.T) {
	findings, status := verifyOf(t, func(i *Installer) {
		i.Machine.Connect = sightOf(i, func(_ *systemd.Unit, executes *string) { *executes = outOfReach })
	})
	reasons := 0
	for _, c := range status.Conditions {
		if c.Type == decision.NotLookedAt {
			reasons++
		}
	}
	if status.State != decision.Unknown || reasons != 1 {
		t.Errorf("status is %s, and names %d reasons: %+v", status.State, reasons, status.Conditions)
	}
	for _, subject := range []string{"agent", "agent's unit", "recovery", "updater's units", "timer", "runs", "restart pending"} {
		lines := about(findings, subject)
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "??   "+subject+": "+subject+" could not be looked at: ") {
			t.Errorf("of %s verify says %q", subject, lines)
		}
	}
	if lines := about(findings, "records"); len(lines) != 1 || lines[0] != "1 check: ok" {
		t.Errorf("of the records verify says %q", lines)
	}
}

func TestVerifyPrintsFaultsFirstAndCountsTheRest(t *testing.T) {
	ok, bad := view.Finding{OK: true}, view.Finding{Subject: "agent", Type: decision.AgentDown, Detail: "it is down"}
	note := view.Finding{Subject: "version 1.0.0", OK: true, Detail: "whole"}
	blind := view.Finding{Subject: "timer", Blind: true, Type: decision.NotLookedAt, Detail: "who knows"}
	for want, findings := range map[string][]view.Finding{
		"BAD  agent: it is down\n??   timer: who knows\nok   version 1.0.0: whole\n2 other checks: ok\n": {ok, note, blind, bad, ok},
		"BAD  agent: it is down\n1 other check: ok\n":                                                    {ok, bad},
		"2 checks: ok\n":              {ok, ok},
		"ok   version 1.0.0: whole\n": {note},
	} {
		var text strings.Builder
		if view.WriteFindings(&text, findings); text.String() != want {
			t.Errorf("verify prints\n%s\nwant\n%s", text.String(), want)
		}
	}
}
