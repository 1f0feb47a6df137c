package transaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// rewrite changes the journal as another program would have written it.
func (m *model) rewrite(change func(fields map[string]any)) {
	m.t.Helper()
	data, err := os.ReadFile(m.Host.Paths.Journal())
	must(m.t, err)
	var fields map[string]any
	must(m.t, json.Unmarshal(data, &fields))
	change(fields)
	data, err = json.Marshal(fields)
	must(m.t, err)
	must(m.t, os.WriteFile(m.Host.Paths.Journal(), data, 0o600))
}

// addEverywhere adds to each part of a document what this program does not know.
func addEverywhere(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			addEverywhere(e)
		}
	case map[string]any:
		for _, e := range v {
			addEverywhere(e)
		}
		v["from_the_future"] = map[string]any{"state": "switched"}
	}
}

// by has the journal be of a program of another schema.
func by(schema, readableFrom int) func(map[string]any) {
	return func(fields map[string]any) {
		if schema > state.Schema {
			addEverywhere(fields)
		}
		fields["schema"], fields["readable_from"] = schema, readableFrom
	}
}

// A journal of a program of another schema is acted on, in each phase, at boot and on
// a live host, where its writer says that it may be.
func TestAJournalOfAnotherSchemaIsRecovered(t *testing.T) {
	some := sampled{every: 11}
	for name, change := range map[string]func(map[string]any){
		"an older one's":                     by(state.Schema-1, state.Schema-1),
		"a newer one's, and all may read it": by(state.Schema+1, state.Schema),
	} {
		for _, s := range scenes() {
			for _, boot := range []bool{false, true} {
				if some.skips() {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/boot=%v", name, s.name, boot), func(t *testing.T) {
					t.Parallel()
					m := s.make(t)
					m.rewrite(change)
					err, _ := m.recovers(boot)
					if err != nil {
						t.Errorf("it ended with %v", err)
					}
					m.settles(outcome{}, err, false)
				})
			}
		}
	}
}

// What a rescuer is too old for it leaves as it is, down to leftovers that the newer
// one may need, and says so; then the newer one comes.
func TestATooOldRescuerHarmsNothing(t *testing.T) {
	some := sampled{every: 11}
	for _, s := range scenes() {
		for _, boot := range []bool{false, true} {
			if some.skips() {
				continue
			}
			t.Run(fmt.Sprintf("%s/boot=%v", s.name, boot), func(t *testing.T) {
				t.Parallel()
				m := s.make(t)
				m.rewrite(by(state.Schema+1, state.Schema+1))
				leftover := filepath.Join(m.Host.Paths.Versions(), ".tmp-sqlite.db-ABCDEFGH")
				writeFile(t, leftover, "half a database")
				before := m.files()
				wasRunning := m.main
				if boot {
					m.ends()
					m.boots++
					m.ordered, wasRunning = true, nil
				}
				err, _ := m.runs(func() error {
					if boot {
						return m.Recover(t.Context(), true)
					}
					return errors.Join(m.Recover(t.Context(), false), m.transact(t.Context(), m.request(Update)))
				})
				m.ordered = false
				if err == nil {
					t.Fatal("it ended well")
				}
				for _, says := range []string{"newer updater", "nothing was changed", m.Host.Program} {
					if !strings.Contains(err.Error(), says) {
						t.Errorf("nobody says %q: %v", says, err)
					}
				}
				// A person is needed once the first tick could not do it either.
				if _, person := errors.AsType[*failure.NeedsPersonError](err); person == boot {
					t.Errorf("needs a person: %v, at boot: %v", person, boot)
				}
				if after := m.files(); after != before || len(m.calls) > 0 || m.main != wasRunning || !host.Exists(leftover) {
					t.Errorf("something was done: %s became %s, calls %q", before, after, m.calls)
				}
				// The model reads the journal as the newer one does.
				m.rewrite(func(fields map[string]any) { fields["readable_from"] = state.Schema })
				if boot && m.enabled && m.unit != "" {
					m.launch() // systemd starts the agent all the same
				}
				m.settles(outcome{}, nil, true)
			})
		}
	}
}

// A step that this program does not know would be taken for one that was not reached.
func TestAJournalWithAnUnknownStepIsNotActedOn(t *testing.T) {
	m := testMachine(t)
	m.open(t, switched, func(j *state.Journal) { j.Reached = "leap" })
	if _, err := load(m.Host.Paths.Journal()); err == nil || !strings.Contains(err.Error(), `unknown step "leap"`) {
		t.Errorf("got %v", err)
	}
}

// A phase or a step of a newer program is its own, also where that did not say who may read its
// journal: nothing is done, and nothing is kept aside.
func TestAPhaseOrAStepOfANewerProgramIsLeftToIt(t *testing.T) {
	for _, field := range []string{"phase", "reached"} {
		for _, boot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/boot=%v", field, boot), func(t *testing.T) {
				m := killedInMidWatch(t, holds)
				m.rewrite(func(fields map[string]any) {
					fields["schema"], fields["readable_from"], fields[field] = state.Schema+1, 1, "leap"
				})
				before := m.files()
				m.calls = nil
				err := m.Recover(t.Context(), boot)
				if err == nil || !strings.Contains(err.Error(), "newer updater") || !strings.Contains(err.Error(), fmt.Sprintf("(schema %d, this one knows %d)", state.Schema+1, state.Schema)) {
					t.Errorf("it ends with %v", err)
				}
				if after := m.files(); after != before || len(m.calls) > 0 {
					t.Errorf("%s became %s, calls %q", before, after, m.calls)
				}
				if _, err := load(m.Host.Paths.Journal()); err == nil || !strings.Contains(err.Error(), "unknown "+map[string]string{"phase": "phase", "reached": "step"}[field]+` "leap"`) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// An upgrade of the package may exchange the program between the two halves of a
// command.
func TestAnOrderOfAnotherSchema(t *testing.T) {
	order := func(schema, readableFrom int) string {
		var fields map[string]any
		data, err := json.Marshal(Order{Transaction: &Request{Kind: Update}})
		must(t, err)
		must(t, json.Unmarshal(data, &fields))
		by(schema, readableFrom)(fields)
		data, err = json.Marshal(fields)
		must(t, err)
		return string(data)
	}
	for _, text := range []string{order(state.Schema-1, state.Schema-1), order(state.Schema+1, state.Schema)} {
		if o, err := ReadOrder(strings.NewReader(text)); err != nil || o.Transaction == nil || o.Transaction.Kind != Update {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
	_, err := ReadOrder(strings.NewReader(order(state.Schema+1, state.Schema+1)))
	if _, refused := errors.AsType[*failure.RefusedError](err); !refused || !strings.Contains(err.Error(), "nothing was changed: run the command again") {
		t.Errorf("got %v; want it refused", err)
	}
}

// Before the first change, the program that the recovery at boot runs is asked what it
// can act on.
func TestATransactionThatTheRescuerIsTooOldForIsRefused(t *testing.T) {
	m := testMachine(t)
	for name, tc := range map[string]struct {
		needs int
		says  string // by the rescuer; empty: there is none
		want  string
	}{
		"nobody is asked for what all know": {needs: 1},
		"new enough":                        {needs: state.Schema + 1, says: fmt.Sprintf(`echo '{"version": "1", "schema": %d}'`, state.Schema+1)},
		"too old":                           {needs: state.Schema + 1, says: fmt.Sprintf(`echo '{"version": "1", "schema": %d}'`, state.Schema), want: fmt.Sprintf("knows schema %d", state.Schema)},
		"it does not say":                   {needs: state.Schema + 1, says: `echo '{"version": "1"}'`, want: "knows schema 0"},
		"it is another program":             {needs: state.Schema + 1, says: `echo hello`, want: "ask " + m.Host.Paths.Updater()},
		"it fails":                          {needs: state.Schema + 1, says: `exit 3`, want: "exit status 3"},
		"there is none":                     {needs: state.Schema + 1, want: "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Dir(m.Host.Paths.Updater())); err != nil {
				t.Fatal(err)
			}
			if tc.says != "" {
				writeFile(t, m.Host.Paths.Updater(), "#!/bin/sh\n"+tc.says+"\n")
				must(t, os.Chmod(m.Host.Paths.Updater(), 0o755))
			}
			j := m.newJournal(t.Context(), absent{})
			j.ReadableFrom = tc.needs
			err := m.suitRescuer(t.Context(), j)
			_, refused := errors.AsType[*failure.RefusedError](err)
			if refused != (tc.want != "") || refused && !strings.Contains(err.Error(), tc.want) || !refused && (err != nil || j.ReadableFrom != tc.needs) {
				t.Errorf("got %v, readable from %d; want %q", err, j.ReadableFrom, tc.want)
			}
		})
	}
}

// A Spec crosses two processes on its way into updates.yaml; what neither of them
// knows was never on that way.
func TestACommitKeepsWhatItDoesNotKnow(t *testing.T) {
	future := map[string]any{"from_the_future": true}
	c := state.EmptyConfig()
	c.Spec.Unknown, c.Spec.Health.Unknown, c.Spec.Backup.Unknown = future, future, future
	tr := testMachine(t).open(t, proven, func(j *state.Journal) { j.Commit.Spec = &state.Spec{Proxy: "new"} })
	tr.commitTo(&c)
	if s := c.Spec; s.Proxy != "new" || s.Unknown == nil || s.Health.Unknown == nil || s.Backup.Unknown == nil {
		t.Errorf("committed: %+v", s)
	}
}
