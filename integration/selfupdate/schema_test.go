//go:build hosts

package selfupdate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// noveltyFile is what host.NextUpdater reads.
const noveltyFile = "/etc/novelty"

func (s *scene) nextUpdater(v string) string {
	s.T.Helper()
	next, err := host.NextUpdater(s.T.TempDir(), v, noveltyFile)
	s.Check(err)
	return s.Program(next)
}

// packaged puts a program where a package has it, with the package's units.
func (s *scene) packaged(program string) {
	s.T.Helper()
	s.Put(program, scenes.Packaged)
	files, err := systemd.Units{Binary: scenes.Packaged}.Files()
	s.Check(err)
	for _, f := range files {
		s.Write("/usr/lib/systemd/system/"+f.Name, string(f.Content))
	}
	s.Path = scenes.Packaged
}

// journal is the head of the open journal, and what is new in it.
func (s *scene) journal() (text string, readableFrom int, novelty map[string]bool) {
	s.T.Helper()
	text = s.Read(store + "/journal.json")
	var j struct {
		ReadableFrom int             `json:"readable_from"`
		Novelty      map[string]bool `json:"novelty"`
	}
	s.Check(json.Unmarshal([]byte(text), &j))
	return text, j.ReadableFrom, j.Novelty
}

// killedByItself is KilledInMidWatch of a transaction that the package's updater makes,
// though the active version has a newer one.
func (s *scene) killedByItself() {
	s.T.Helper()
	noMore := s.WatchesLast()
	update := s.Background(host.Command{Args: []string{s.Path, "update"}, Env: []string{"TELEPORT_UPDATE_SUCCESSOR=1:1"}})
	s.Watched("1.1.0")
	noMore()
	s.KillsMain(scenes.SwitchUnits)
	s.Ends(update, 1)
}

// closed asserts that after a boot the next tick leaves the host on 1.0.0.
func (s *scene) closed() {
	s.T.Helper()
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS}) // not now
	if code := s.Tick(); code != 0 {
		s.T.Errorf("the tick ends with %d:\n%s", code, s.Log("teleport-update.service"))
	}
	s.Serves("1.0.0")
	s.Wants("1.1.0")
}

// A package has an updater, the active version carries one with a higher schema: each
// is the rescuer of what the other began. Nothing here depends on which of the two a
// command is given to: the journals say who wrote them.
func TestUpdatersOfTwoSchemasRescueOneAnother(t *testing.T) {
	s := bareScene(t, host.Options{})
	older, newer := s.stampedUpdater("1.0.0"), s.nextUpdater("2.0.0")
	const next = state.Schema + 1
	schema := func(n int) string { return fmt.Sprintf(`"schema": %d`, n) }
	s.packaged(older)
	s.carries("1.0.0", newer)
	s.Sound("1.1.0")
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")

	// What the older one must not overlook, the newer one does not begin.
	s.Write(noveltyFile, "must")
	before := s.Seen()
	s.Fails(1, fmt.Sprintf(`the recovery at boot could not undo this transaction: acting on it takes schema %d ["novelty.must"], and /usr/bin/teleport-update knows schema %d`, next, state.Schema),
		s.Path, "update", "--now")
	s.Linked("1.0.0")
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		t.Errorf("the agent was %s", got)
	}

	// What it can do without it leaves out, what may be overlooked it writes down; the
	// older one recovers that at boot.
	s.Write(noveltyFile, "may ignored")
	s.KilledInMidWatch("1.1.0")
	if text, from, novelty := s.journal(); from > state.Schema || novelty["may"] || !novelty["ignored"] || !strings.Contains(text, schema(next)) {
		t.Errorf("the newer one's journal:\n%s", text)
	}
	s.Check(s.Reboot(t.Context()))
	if got := s.Phase(); got != "restored" {
		t.Errorf("after the boot the journal says %q", got)
	}
	if text, _, novelty := s.journal(); novelty != nil || !strings.Contains(text, schema(state.Schema)) {
		t.Errorf("it was not the older one that recovered it:\n%s", text)
	}
	s.closed()

	// The newer one, with whatever it needs, recovers what the older one began.
	s.killedByItself()
	if text, _, _ := s.journal(); !strings.Contains(text, schema(state.Schema)) {
		t.Errorf("the older one's journal:\n%s", text)
	}
	s.packaged(newer)
	s.Check(s.Reboot(t.Context()))
	if text, _, _ := s.journal(); s.Phase() != "restored" || !strings.Contains(text, schema(next)) {
		t.Errorf("after the boot the journal is\n%s", text)
	}
	s.closed()

	// A package that went back to the older one in the middle of all: the older one
	// harms nothing, the agent starts, and the first tick has the newer one close it.
	s.Write(noveltyFile, "must")
	s.KilledInMidWatch("1.1.0")
	open, from, _ := s.journal()
	if from != next {
		t.Errorf("the newer one's journal:\n%s", open)
	}
	s.packaged(older)
	s.Check(s.Reboot(t.Context()))
	if now, _, _ := s.journal(); now != open {
		t.Errorf("the journal became\n%s", now)
	}
	s.LinkedFiles("1.1.0")
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.1.0/bin/teleport") })
	if code := s.Show("teleport-update-recover.service", "ExecMainStatus"); code != "1" {
		t.Errorf("the recovery ended with %s; want 1", code)
	}
	if log := s.Log("teleport-update-recover.service"); !strings.Contains(log, fmt.Sprintf("it was written by a newer updater (schema %d, this one knows %d)", next, state.Schema)) ||
		!strings.Contains(log, "the timer's first run has the newer one close it") {
		t.Errorf("nobody says why:\n%s", log)
	}
	s.closed()
}
