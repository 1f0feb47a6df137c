//go:build hosts

package database

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// RFD 0169 §Downgrades, the two examples. "v1" wrote the rows of its first life
// before v2 came; those of its second life come after it was returned to.
func TestTheSequencesOfTheRFD(t *testing.T) {
	t.Parallel()
	const v1, v2, v3 = "1.0.0", "1.1.0", "1.2.0"
	begin := func(t *testing.T) (s *scene, first, second, third scenes.Content) {
		s = newScene(t)
		s.migrating(v1, v2, v3)
		s.Writes("wal", 200)
		s.RunsOn(v1, "--health-window", "1s")
		s.Grows(50)
		s.Updates(v2)
		s.Grows(s.Saved(v1).Last)
		s.Updates(v1)
		first, second = s.Saved(v1), s.Saved(v2)
		s.Grows(first.Last + 50)
		third = s.Live()
		s.Whole("v1 again", third, 1)
		if third.ByVersion[v2] != 0 || third.ByVersion[v1] <= first.Last {
			t.Errorf("v1 again has %v; it had %v", third, first)
		}
		return s, first, second, third
	}
	t.Run("v1 v2 v1 v3: v1's database is migrated directly to v3", func(t *testing.T) {
		s, _, _, again := begin(t)
		s.Updates(v3)
		live := s.Live()
		s.Whole("v3", live, 3)
		if live.ByVersion[v2] != 0 || live.ByVersion[v1] < again.Last {
			t.Errorf("v3 has %v; want all rows of v1 up to %d and none of v2", live, again.Last)
		}
		if log := s.Log("teleport.service"); !strings.Contains(log, "from=1 to=3") {
			t.Error("the database was not migrated from schema 1 to 3")
		}
	})
	t.Run("v1 v2 v1 v2 v3: v2's database is recovered", func(t *testing.T) {
		s, first, second, _ := begin(t)
		stopped := s.Seen().PID
		s.Updates(v2)
		s.Grows(second.Last)
		live := s.Live()
		s.Whole("v2 again", live, 2)
		s.SameRows(v2, second.Last)
		if live.ByVersion[v1] != second.ByVersion[v1] || live.ByVersion[v2] <= second.ByVersion[v2] {
			t.Errorf("v2 again has %v; want no more rows of v1 than %v, and more of its own", live, second)
		}
		if saved, said := s.Saved(v1), s.SaidLast(stopped); saved.Last != said || saved.Last <= first.Last {
			t.Errorf("v1 left %v; it committed row %d", saved, said)
		}
		s.Updates(v3)
		after := s.Live()
		s.Whole("v3", after, 3)
		if after.ByVersion[v1] != second.ByVersion[v1] || after.ByVersion[v2] < live.ByVersion[v2] {
			t.Errorf("v3 has %v; want all of %v", after, live)
		}
	})
	t.Run("v1 v2 v1 v2, v2's database too old: v1's goes forward", func(t *testing.T) {
		s, _, second, again := begin(t)
		s.Must("sed", "-i", `s|creation_time: .*|creation_time: "2024-01-01T00:00:00Z"|`, store+"/"+v2+"/backup/backup.yaml")
		run := s.Show("teleport", "InvocationID")
		s.Updates(v2)
		live := s.Live()
		s.Whole("v2 again", live, 2)
		if live.ByVersion[v1] < again.Last || s.Show("teleport", "InvocationID") != run {
			t.Errorf("v2 again has %v; want all rows of v1 up to %d, and none of the %d that v2 left, after a reload", live, again.Last, second.ByVersion[v2])
		}
	})
}

func TestARollbackByHandIsOfflineAndHoldsTheVersionBack(t *testing.T) {
	s := newScene(t)
	s.migrating("1.0.0", "1.1.0", "1.2.0")
	s.Writes("wal", 200)
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Fails(1, "there is no previous version to go back to", updater, "rollback")
	s.Updates("1.1.0")
	s.Tick() // find is heard once more

	s.Breaks(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	asked := s.Asked.Load()
	s.Must(updater, "rollback")
	if n := s.Asked.Load() - asked; n != 0 {
		t.Errorf("a rollback asked find %d times", n)
	}
	s.Serves("1.0.0")
	if log := s.Logged(); strings.Count(log, "restoring")+strings.Count(log, "database=restore") == 0 {
		t.Errorf("the journal does not speak of the database:\n%s", log)
	}
	s.Whole("the database", s.Live(), 1)
	held := func() {
		t.Helper()
		r := s.Status()
		if r.State != decision.Held || scenes.Text(r.HeldVersion) != "1.1.0" || scenes.Text(r.VersionPrevious) != "1.1.0" || !strings.Contains(r.Explanation, "update --now") {
			t.Errorf("status: %s, held %s, previous %s: %s", r.State, scenes.Text(r.HeldVersion), scenes.Text(r.VersionPrevious), r.Explanation)
		}
	}
	held()
	s.Breaks(nil)

	// Find goes on wanting it.
	for range 2 {
		if code := s.Tick(); code != 0 {
			t.Errorf("a tick ends with %d", code)
		}
	}
	s.Must(updater, "update")
	s.Serves("1.0.0")
	held()
	if log := s.Log("teleport-update.service"); !strings.Contains(log, "the host is held since a rollback by hand") {
		t.Errorf("the timer's runs do not say why they do nothing:\n%s", log)
	}
	if out := s.Must(updater, "update", "--dry-run"); !strings.Contains(out, "Nothing would be done: the host is held since a rollback by hand") {
		t.Errorf("the dry run says:\n%s", out)
	}

	// A second one does not swing back by itself.
	s.Refused("a second rollback", []string{"already a rollback, from 1.1.0", "teleport-update rollback 1.1.0"}, updater, "rollback")
	s.Must(updater, "rollback", "1.1.0")
	s.Serves("1.1.0")
	s.Whole("the database", s.Live(), 2)
	s.Must(updater, "rollback", "1.0.0")
	s.Serves("1.0.0")
	held()

	// A person releases it.
	s.Must(updater, "update", "--now")
	s.Serves("1.1.0")
	if r := s.Status(); r.State != decision.Idle || r.HeldVersion != nil {
		t.Errorf("status after update --now: %s, held %s", r.State, scenes.Text(r.HeldVersion))
	}

	// A later wish of find's than the one that the host hears first is followed, even if a
	// version between was left.
	s.Must(updater, "rollback")
	held()
	s.Must(updater, "update")
	held()
	s.Wants("1.2.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.Serves("1.2.0")
	if r := s.Status(); r.State != decision.Idle || r.HeldVersion != nil || scenes.Text(r.VersionPrevious) != "1.0.0" {
		t.Errorf("status after another version: %s, held %s, previous %s", r.State, scenes.Text(r.HeldVersion), scenes.Text(r.VersionPrevious))
	}
}

// What is held back is what find wanted, also when that is not what was left.
func TestARollbackHoldsBackWhatFindWants(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	s.Set(find.Answer{Version: "1.2.0", Edition: version.OSS}) // announced, not now
	s.Tick()
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	s.Refused("a second rollback", []string{"teleport-update rollback 1.1.0"}, updater, "rollback")
	s.Wants("1.2.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.Serves("1.0.0")
	if r := s.Status(); r.State != decision.Held || scenes.Text(r.HeldVersion) != "1.2.0" {
		t.Errorf("status: %s, held %s", r.State, scenes.Text(r.HeldVersion))
	}
}

func TestARollbackToWhatIsNotWholeIsRefused(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Fails(1, "no active version", updater, "rollback")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	s.Must("cp", "-a", store+"/1.0.0", "/root/")
	s.Must("cp", "-a", programs+"/1.0.0", "/root/programs")
	gone := "rm -r 1.0.0 " + programs + "/1.0.0"
	for _, tc := range []struct {
		name, script string
		args, says   []string
	}{
		{"the active version", "true", []string{"1.1.0"}, []string{"1.1.0 is active already"}},
		{"a version that never was", "true", []string{"1.0.5"}, []string{"1.0.5", "not on this host any more"}},
		{"the tree removed", gone, nil, []string{"1.0.0", "not on this host any more"}},
		{"the tree removed, forced", gone, []string{"--force"}, []string{"1.0.0", "not on this host any more"}},
		{"the tree incomplete", "rm 1.0.0/sha256", nil, []string{"folder 1.0.0 is incomplete (sha256 is missing)"}},
		{"a binary removed", "rm 1.0.0/bin/tsh", nil, []string{"1.0.0", "bin/tsh", "teleport-update pin 1.0.0"}},
		{"a binary changed", "echo >>1.0.0/bin/teleport", nil, []string{"1.0.0", "bin/teleport", "teleport-update pin 1.0.0"}},
		{"a binary emptied, forced", ">1.0.0/bin/teleport", []string{"--force"}, []string{"1.0.0", "bin/teleport"}},
	} {
		s.Must("sh", "-ec", "cd "+store+"; "+tc.script)
		says := append(tc.says, "nothing was changed")
		s.Refused(tc.name+", dry run", says, append([]string{updater, "rollback", "--dry-run"}, tc.args...)...)
		s.Refused(tc.name, says, append([]string{updater, "rollback"}, tc.args...)...)
		s.DryRunAgrees(append([]string{updater, "rollback"}, tc.args...)...)
		s.Must("sh", "-ec", "cd "+store+"; rm -rf 1.0.0 "+programs+"/1.0.0; cp -a /root/1.0.0 .; cp -a /root/programs "+programs+"/1.0.0")
	}
	s.Fails(2, "not a semantic version", updater, "rollback", "latest")
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
}

// A damaged database must not keep a host on the version that damaged it.
func TestARollbackFromADamagedDatabase(t *testing.T) {
	t.Parallel()
	for _, tc := range damages {
		if tc.name != "another kind of file" && !tc.deep {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.migrating("1.0.0", "1.1.0")
			s.Writes("delete", 100)
			s.RunsOn("1.0.0", "--health-window", "1s")
			s.Grows(20)
			s.Updates("1.1.0")
			s.Writes("delete", 0)
			s.Must("systemctl", "restart", "teleport")
			s.Serves("1.1.0")
			s.Must("sleep", "1.2") // an agent that is not healthy for its window may have other tables by another version
			s.Must("sqlite3", scenes.LiveFile, "CREATE TABLE other (data BLOB); INSERT INTO other VALUES (randomblob(100000))")
			s.Must("sh", "-ec", "DB="+scenes.LiveFile+"\n"+tc.script)
			damaged := s.Read(scenes.LiveFile)
			says := []string{scenes.LiveFile, tc.says, "nothing was changed", "teleport-update rollback 1.0.0 --force"}
			s.Refused("rollback, dry run", says, updater, "rollback", "--dry-run")
			s.Refused("rollback", says, updater, "rollback")
			if plan := s.Must(updater, "rollback", "--force", "--dry-run"); !strings.Contains(plan, "damaged: kept aside as it is; then the one that version 1.0.0 had is restored") {
				t.Errorf("the dry run says:\n%s", plan)
			}

			s.Must(updater, "rollback", "--force")
			s.Serves("1.0.0")
			live := s.Live()
			s.Whole("the database", live, 1)
			s.SameRows("1.0.0", s.Saved("1.0.0").Last)
			names, err := s.Names(scenes.AgentData + "/proc")
			if err != nil {
				t.Fatal(err)
			}
			aside := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "sqlite.db.damaged-") })
			if aside < 0 || s.Read(scenes.AgentData+"/proc/"+names[aside]) != damaged {
				t.Errorf("the damaged database is not kept aside: %v", names)
			}
			if r := s.Status(); !r.SkippedBackup || r.State != decision.Held {
				t.Errorf("status: %s, skipped %v", r.State, r.SkippedBackup)
			}
		})
	}
}

func TestADryRunForetellsAndChangesNothing(t *testing.T) {
	s := newScene(t)
	s.migrating("1.0.0", "1.1.0")
	s.Writes("delete", 0)
	s.RunsOn("1.0.0", "--health-window", "1s")
	everything := func() host.Snapshot {
		tree := s.Look()
		for path, what := range s.Tree(scenes.AgentData) {
			tree[path] = what
		}
		return tree.Without(store+"/update.lock", store+"/fetch.lock")
	}
	foretells := func(args []string, lines ...string) {
		t.Helper()
		before := everything()
		plan := s.Must(append(append([]string{updater}, args...), "--dry-run")...)
		s.Unchanged(before, everything())
		t.Logf("%s --dry-run:\n%s", strings.Join(args, " "), plan)
		for _, line := range lines {
			if !strings.Contains(plan, line) {
				t.Errorf("%s --dry-run does not say %q:\n%s", strings.Join(args, " "), line, plan)
			}
		}
	}
	update, rollback := []string{"update"}, []string{"rollback"}
	const nothing = "Nothing would be done: version 1.0.0 is active and wanted."
	foretells(update, nothing)
	foretells([]string{"update", "--restart"}, nothing)
	for says, wrong := range map[string][]string{
		"Repair:    /usr/local/bin/tctl is missing; it should lead to":                {"rm", "/usr/local/bin/tctl"},
		"Repair:    /usr/local/bin/tsh leads to /bin/true":                            {"ln", "-sfn", "/bin/true", "/usr/local/bin/tsh"},
		"Repair:    /usr/local/lib/systemd/system/teleport.service is missing\n":      {"rm", "/usr/local/lib/systemd/system/teleport.service"},
		"Repair:    /usr/local/lib/systemd/system/teleport-update.timer is missing\n": {"rm", "/usr/local/lib/systemd/system/teleport-update.timer"},
		"Repair:    version 1.0.0 is damaged, and is fetched again: ":                 {"truncate", "-s", "0", programs + "/1.0.0/bin/tbot"},
		"Repair:    version 1.0.0 is not whole on disk, and is fetched again\n":       {"rm", store + "/1.0.0/sha256"},
	} {
		s.Must(wrong...)
		foretells(update, "The version would not change: version 1.0.0 is active and wanted.\n", says, "Nothing was changed.")
		s.Must(updater, "update")
		foretells(update, nothing)
	}
	s.Write("/etc/systemd/system/teleport.service.d/60-a.conf", "[Service]\nEnvironment=A=1\n")
	s.Must("systemctl", "daemon-reload")
	foretells(update, nothing)
	foretells([]string{"update", "--restart"}, "Agent:     restarted, for it differs from its unit: the next start changes the variable A\n", "Nothing was changed.")
	s.Must(updater, "update", "--restart")
	foretells([]string{"update", "--restart"}, nothing)

	s.Wants("1.1.0")
	forward := "backed up to " + store + "/1.0.0/backup; version 1.1.0 goes on with it"
	foretells(update, "From:      1.0.0\n", "To:        1.1.0\n", "Database:  "+forward+"\n", "Agent:     reloaded\n",
		"Download:  "+cluster.ProxyAddress+"/releases/teleport-v1.1.0-linux-amd64-bin.tar.gz, ", " MiB\nSpace:     ", " MiB needed, ", "iB free\n", "Nothing was changed.")
	foretells([]string{"update", "--skip-backup"}, "Database:  left as it is, not backed up\n")
	foretells([]string{"update", "--now"}, "To:        1.1.0\n")
	run := s.Show("teleport", "InvocationID")
	s.Must(updater, "update")
	s.Serves("1.1.0")
	if s.Show("teleport", "InvocationID") != run || !s.Exists(store+"/1.0.0/backup/backup.yaml") {
		t.Error("the update did not do what was foretold")
	}

	restored := "Database:  backed up to " + store + "/1.1.0/backup; then the one that version 1.0.0 had is restored\n"
	foretells(rollback, "From:      1.1.0\n", "To:        1.0.0\n", restored, "Agent:     stopped and started\n", "Download:  none, the version is on disk\n", "Nothing was changed.")
	foretells([]string{"rollback", "1.0.0"}, restored)
	s.Wants("1.0.0")
	foretells(update, "To:        1.0.0\n", restored, "Agent:     stopped and started\n", "Download:  none, the version is on disk\n")
	s.Must("systemctl", "stop", "teleport")
	foretells(rollback, "Agent:     not running, and not started\n")
	s.Must("systemctl", "start", "teleport")
	s.Must(updater, "update")
	s.Serves("1.0.0")
	s.Whole("the database", s.Live(), 1)
	s.Wants("1.1.0")
	foretells(update, "Database:  backed up to "+store+"/1.0.0/backup; then the one that version 1.1.0 had is restored\n", "Agent:     stopped and started\n", "Download:  none")
	s.Must("truncate", "-s", "0", programs+"/1.1.0/bin/tsh")
	foretells(update, "Download:  "+cluster.ProxyAddress+"/releases/teleport-v1.1.0-linux-amd64-bin.tar.gz, ", " MiB\nSpace:     ")
	s.Must(updater, "disable")
	foretells(update, "Nothing would be done: updates are disabled.")
}
