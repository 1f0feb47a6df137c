//go:build hosts

package faults

import "testing"

func TestEverySceneEndsAsItShouldWhenNothingGoesWrong(t *testing.T) {
	w := newWorld(t)
	for _, scene := range Scenes() {
		s, err := w.Play(t.Context(), scene)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Logf("%s: before %v", s.Name, s.Before)
		t.Logf("%s: after %v", s.Name, s.After)
	}
}
