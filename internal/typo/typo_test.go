package typo

import "testing"

func TestOnlyAWordThatIsNearIsNamed(t *testing.T) {
	known := []string{"status", "set-version", "serve", "simulate", "hosts", "rollout"}
	for word, want := range map[string]string{
		"stauts": "status", "satus": "status", "host": "hosts", "setversion": "set-version", "rolout": "rollout", "server": "serve",
		"upgrade": "", "x": "", "": "",
	} {
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got := DidYouMean(word, known); got != want {
			t.Errorf("%q: %q; want %q", word, got, want)
		}
	}
}
