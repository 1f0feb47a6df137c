package rollout

import (
	"strings"
	"testing"
)

// Where a rollback goes, who goes, and what find answers.
func TestWhereARollbackGoes(t *testing.T) {
	begin := func(t *testing.T) *world {
		w := newWorld(t, regular("{name: dev, "+everyDay+"}", "{name: prod, "+everyDay+"}"))
		names := w.add("dev", 6, "17.1.0") // the start version of the rollout is 17.2.0
		w.fleet.named(names[5]).Version = "17.0.0"
		w.begin("Mon 10:00")
		w.tick()
		for _, name := range names[:4] {
			w.update(name, "17.2.1")
		}
		w.tick()
		return w
	}
	for _, tc := range []struct {
		to, told, there string
		says            []string
	}{
		{"", "17.2.0 now", "0 of 6", []string{"4 hosts go from 17.2.1 to 17.2.0", "1 host goes from 17.1.0 to 17.2.0", "1 host goes from 17.0.0 to 17.2.0",
			"4 hosts go to an older version, with the database of when 17.2.0 last ran there", "most hosts ran 17.1.0 when the rollout began (--to previous)"}},
		{"start", "17.2.0 now", "0 of 6", []string{"4 hosts go from 17.2.1 to 17.2.0"}},
		{"previous", "17.1.0 now", "1 of 6", []string{"4 hosts go from 17.2.1 to 17.1.0", "1 host is on 17.1.0 already", "1 host ran another version than 17.1.0 when the rollout began"}},
		{"17.0.0", "17.0.0 now", "1 of 6", []string{"4 hosts go from 17.2.1 to 17.0.0", "1 host goes from 17.1.0 to 17.0.0", "5 hosts go to an older version"}},
		{"v17.3.0", "17.3.0 now", "0 of 6", []string{"4 hosts go from 17.2.1 to 17.3.0"}},
	} {
		t.Run(tc.to, func(t *testing.T) {
			w := begin(t)
			w.order(Order{Verb: Rollback, Groups: []string{"dev"}, To: tc.to})
			w.want("rolledback unstarted")
			w.wantTold("dev", "", tc.told)
			message := w.steps[len(w.steps)-1].Message
			for _, part := range tc.says {
				if !strings.Contains(message, part) {
					t.Errorf("the order says %q; want %q", message, part)
				}
			}
			version, _, _ := strings.Cut(tc.told, " ")
			if o := Look(w.scene()); !strings.Contains(o.Sentence, "are told to go back to "+version+"; "+tc.there+" hosts are there.") {
				t.Errorf("status says %s", o.Sentence)
			}
			w.config.Spec.Agents.Mode = Suspended
			w.wantTold("dev", "", version)
			w.config.Spec.Agents.Mode = Enabled
			w.order(Order{Verb: StartUpdate, Groups: []string{"dev"}})
			if g := w.group("dev"); g.RollbackVersion != "" || g.PreviousVersion != "17.1.0" || g.PreviousOthers != 1 {
				t.Errorf("after a new start: %+v", g)
			}
		})
	}
	w := begin(t)
	for to, want := range map[string]string{"17.2.1": "is the target of the rollout", "yesterday": "neither start, previous nor a version"} {
		if got := w.refused(Order{Verb: Rollback, Groups: []string{"dev"}, To: to}); !strings.Contains(got, want) {
			t.Errorf("--to %s: %s; want %s", to, got, want)
		}
	}
	if got := w.refused(Order{Verb: Retry, Groups: []string{"dev"}, To: "start"}); !strings.Contains(got, "--to is for rollout back") {
		t.Error(got)
	}
	w.order(Order{Verb: Rollback, To: "previous"})
	w.want("rolledback unstarted!rollout_rolled_back")
	w.order(Order{Verb: Rollback, Groups: []string{"dev"}, To: "17.0.0"}) // and further
	w.wantTold("dev", "", "17.0.0 now")
	// Where the start version is the target, status names the way that there is.
	w = newWorld(t, regular("{name: dev, "+everyDay+"}"))
	w.version.Spec.Agents.StartVersion = ""
	w.add("dev", 3, "17.1.0")
	w.begin("Mon 10:00")
	w.tick()
	if o := Look(w.scene()); !strings.HasSuffix(said(o.Commands),
		"; rollout back --to previous dev (ends it, and 3 hosts stay on 17.1.0)") {
		t.Errorf("it names %s", said(o.Commands))
	}
}

// A rollback on a server that has just started names the hosts that have reported.
func TestARollbackNamesTheHostsThatHaveReported(t *testing.T) {
	w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
	w.begin("Mon 10:00")
	w.tick()
	w.counted = false
	rollback := Order{Verb: Rollback, Groups: []string{"dev"}}
	for _, want := range []string{"so far no host of the group has reported; all are told to go to 17.2.0",
		"3 hosts go from 17.2.1 to 17.2.0; so far 3 hosts of the group have reported; all are told to go to 17.2.0"} {
		result, err := rollback.Apply(w.config, w.version, w.rollout, w.counts(), w.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Steps[0].Message; !strings.HasPrefix(got, want) {
			t.Errorf("it says %s; want %s", got, want)
		}
		w.add("dev", 3, "17.2.1")
	}
}

// What a rollback of the whole rollout has halted is named with a command once no
// group is rolled back any more.
func TestGroupsThatARollbackHaltedAreNamed(t *testing.T) {
	w := newWorld(t, regular("{name: a, "+everyDay+"}", "{name: b, "+everyDay+"}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.order(Order{Verb: Rollback})
	w.want("rolledback unstarted!rollout_rolled_back")
	w.order(Order{Verb: MarkDone, Groups: []string{"a"}})
	o := Look(w.scene())
	if o.Word != "halted" || !strings.HasSuffix(said(o.Commands), "rollout retry b (lets it start in its turn); rollout done b "+
		"(ends it: tells its hosts, none of which reports, to update to 17.2.1)") {
		t.Errorf("%s: %s %s", o.Word, o.Sentence, said(o.Commands))
	}
}
