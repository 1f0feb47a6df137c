package transaction

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

func TestTheAgentOfBeforeIsFoundThoughOurLinksAreInItsPlace(t *testing.T) {
	m := testMachine(t)
	bin, own := m.Host.Paths.LinkDir, filepath.Join(t.TempDir(), "system", "bin")
	agent := filepath.Join(bin, "teleport")
	writeFile(t, filepath.Join(own, "teleport"), "the package's")
	writeFile(t, filepath.Join(m.Host.Paths.Versions(), "2.0.0", "bin", "teleport"), "ours")
	must(t, os.MkdirAll(bin, 0o755))
	must(t, os.Symlink(filepath.Join(m.Host.Paths.Versions(), "2.0.0", "bin", "teleport"), agent))
	other := filepath.Join(bin, "other")
	must(t, os.Symlink("teleport", other))
	round := filepath.Join(bin, "round")
	must(t, os.Symlink("round", round))

	link := func(before state.Before) []state.LinkChange { return []state.LinkChange{{Path: agent, Before: before}} }
	for name, tc := range map[string]struct {
		program string // that the unit started
		links   []state.LinkChange
		want    string
		content string // where its content is now
	}{
		"a file":                            {agent, link(state.Before{Saved: "teleport-ab"}), agent, filepath.Join(m.Host.Paths.Original(), "teleport-ab")},
		"a link":                            {agent, link(state.Before{Link: own + "/teleport"}), own + "/teleport", own + "/teleport"},
		"a link that says where from there": {agent, link(state.Before{Link: "teleport-there"}), bin + "/teleport-there", bin + "/teleport-there"},
		"another name of it":                {other, link(state.Before{Link: own + "/teleport"}), own + "/teleport", own + "/teleport"},
		"elsewhere":                         {own + "/teleport", link(state.Before{}), own + "/teleport", own + "/teleport"},
		"no unit said which":                {"", link(state.Before{Saved: "teleport-ab"}), agent, filepath.Join(m.Host.Paths.Original(), "teleport-ab")},
		"links that lead round":             {round, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := m.open(t, proven, func(j *state.Journal) { j.Agent.Program, j.Links = tc.program, tc.links })
			got := tr.packages().programBefore()
			if got != tc.want || tr.packages().copyBefore(got) != tc.content {
				t.Errorf("it is %q, its content in %q; want %q, %q", got, tr.packages().copyBefore(got), tc.want, tc.content)
			}
		})
	}
}

func TestAPackagesUnitStartsTheLinks(t *testing.T) {
	unit := "[Service]\nExecStartPre=/opt/t/bin/teleport version\nExecStart=/opt/t/bin/teleport start --fips\nExecReload=/opt/t/bin/teleport-reload\nExecStop=/opt/t/bin/teleport"
	want := "[Service]\nExecStartPre=/l/teleport version\nExecStart=/l/teleport start --fips\nExecReload=/opt/t/bin/teleport-reload\nExecStop=/opt/t/bin/teleport"
	if got := withPaths([]byte(unit), []string{"/opt/t/bin/teleport", "/l/teleport", "", "/l/teleport", "/opt/t/bin/tsh", "/l/tsh"}); string(got) != want {
		t.Errorf("the unit is\n%s\nwant\n%s", got, want)
	}
}

func TestAVersionThatAPackageBroughtIsThePreviousOneOfTheFirstOnly(t *testing.T) {
	m := testMachine(t)
	was, to := version.Release{Version: "0.9.0", Edition: version.OSS}, version.Release{Version: "2.0.0", Edition: version.OSS}
	tr := m.open(t, proven, func(j *state.Journal) { j.To.Release, j.Packages.Version = to, &was })
	for name, tc := range map[string]struct {
		before state.Config
		want   version.Release
	}{
		"of the first":       {state.EmptyConfig(), was},
		"once more":          {withVersions(to, was), was},
		"not of a later one": {withVersions(version.Release{Version: "1.0.0", Edition: version.OSS}, was), version.Release{Version: "1.0.0", Edition: version.OSS}},
	} {
		c := tc.before
		tr.commitTo(&c)
		if c.Previous() != tc.want || c.Active() != to {
			t.Errorf("%s: active %v, previous %v; want %v", name, c.Active(), c.Previous(), tc.want)
		}
	}
}

// A damaged version that enable puts back is committed once more.
func TestACommitKeepsThatThePreviousVersionFailed(t *testing.T) {
	release := func(v string) version.Release { return version.Release{Version: v, Edition: version.OSS} }
	m := testMachine(t)
	for to, want := range map[string]bool{"1.0.0": true, "1.1.0": false, "1.2.0": false} {
		c := withVersions(release("1.0.0"), release("1.1.0"))
		c.Status.RecordFailure(state.Tree{Release: release("1.1.0")}, noon, "it crashed")
		c.Status.RecordFailure(state.Tree{Release: release("1.2.0")}, noon, "it crashed")
		m.open(t, proven, func(j *state.Journal) { j.To.Release, j.Commit.Spec = release(to), &state.Spec{} }).commitTo(&c)
		if f := c.Status.Failed; (f != nil) != want || want && f.Version != "1.1.0" || len(c.Status.FailedBefore) > 0 {
			t.Errorf("after a commit to %s: %+v, %+v", to, f, c.Status.FailedBefore)
		}
	}
}

func withVersions(active, previous version.Release) state.Config {
	c := state.EmptyConfig()
	c.Spec.ActiveVersion, c.Status.ActiveEdition = active.Version, active.Edition
	c.Status.PreviousVersion, c.Status.PreviousEdition = previous.Version, previous.Edition
	return c
}
