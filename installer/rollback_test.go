package installer

import (
	"testing"

	"teleport-update/find"
	"teleport-update/internal/version"
)

func TestARollbackHoldsBackWhatWouldUndoIt(t *testing.T) {
	c := Config{Spec: Spec{Proxy: "example.com", Group: "staging", ActiveVersion: "1.1.0"}, Status: Status{ActiveEdition: version.OSS}}
	to := target{Version: "1.0.0", Edition: version.OSS}
	for name, tc := range map[string]struct{ heard, want string }{
		"what find wants": {"1.2.0", "1.2.0"},
		"the version that is left, when find was not heard":              {"", "1.1.0"},
		"the version that is left, when find wants the one gone back to": {"1.0.0", "1.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			if tc.heard != "" {
				writeFile(t, i.Paths.lastAnswer(), "")
				i.remember(c.Spec, find.Answer{Version: tc.heard, Edition: version.OSS})
			}
			if got := i.heldBy(c, to); got.Version != tc.want || got.Edition != version.OSS {
				t.Errorf("holds back %s (%s); want %s", got.Version, got.Edition, tc.want)
			}
		})
	}
}
