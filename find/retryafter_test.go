package find

import "testing"

func TestWhenToAskAgainIsSaid(t *testing.T) {
	for header, want := range map[string]string{
		"30":                             " (it wants to be asked again after 30s)",
		" 120 ":                          " (it wants to be asked again after 2m0s)",
		"0":                              " (it wants to be asked again after 0s)",
		"Mon, 02 Mar 2026 12:00:00 GMT":  " (it wants to be asked again at 2026-03-02T12:00:00Z)",
		"Monday, 02-Mar-26 12:00:00 GMT": " (it wants to be asked again at 2026-03-02T12:00:00Z)",
		"Mon Mar  2 12:00:00 2026":       " (it wants to be asked again at 2026-03-02T12:00:00Z)",
		"":                               "", "soon": "", "-5": "", "1.5": "", "99999999999999": "", "\x1b[2J": "", "30s": "",
	} {
		if got := retryAfter(header); got != want {
			t.Errorf("%q: %q; want %q", header, got, want)
		}
	}
}
