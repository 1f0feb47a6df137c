package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teleport-update/internal/console"
)

func TestTheDemoBeginsWithAPlanAndEndsWithWhatToTypeNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		s := &screen{Output: console.To(&out), chapters: chapters(2)}
		s.announce("1.2.3")
		s.chapter()
		time.Sleep(10 * time.Second)
		s.chapter()
		s.end()
		for _, part := range []string{
			"The demo of teleport-update 1.2.3, on hosts that are gone afterwards. It usually takes 100 s:\n  1. build", "\n  3. three hosts",
			"· part 1 of 3 … 4 s, about 96 s left\n", "\nNext:\n  make packages ",
		} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("it does not show %q:\n%s", part, out.String())
			}
		}
	})
}

func TestTheFleetOfTheDemoIsOfToday(t *testing.T) {
	now := time.Date(2027, 3, 4, 23, 0, 0, 0, time.FixedZone("", -2*3600))
	if got := noon(now); !got.Equal(time.Date(2027, 3, 5, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("its clock begins at %s", got)
	}
}
