package server

import (
	"strings"
	"testing"
	"time"
)

// A channel follows the rollout of the store, and what stops the rollout stops it.
func TestAChannelFollowsTheStore(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	c := w.control(clock, w.store)
	expect := func(want string) {
		t.Helper()
		c.stored.Refresh(t.Context())
		v, critical := c.stored.Channel("dev")
		if got := v + map[bool]string{true: " critical"}[critical]; got != want {
			t.Errorf("the channel says %q; want %q", got, want)
		}
	}
	expect("")
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	expect("15.1.0") // the newest release, which hosts are told
	w.write(scheduled)
	c.tick()
	expect("") // it is not the turn of the group
	if window, ok := c.stored.Window("dev"); !ok || strings.Join(window.OnCalendar(), "") != "*-*-* 12:00,10,20,30,40,50:00 UTC" {
		t.Errorf("the window is %+v", window)
	}
	clock.pass(time.Hour)
	c.tick()
	expect("17.2.1")
	w.write(strings.Replace(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"), "mode: enabled", "mode: suspended", 1))
	expect("")
}
