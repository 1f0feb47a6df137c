package installer

import (
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

func TestARollbackHoldsBackWhatWouldUndoIt(t *testing.T) {
	c := state.Config{Spec: state.Spec{Proxy: "example.com", Group: "staging", ActiveVersion: "1.1.0"}, Status: state.Status{ActiveEdition: version.OSS}}
	to := version.Release{Version: "1.0.0", Edition: version.OSS}
	for name, tc := range map[string]struct{ heard, want string }{
		"what the cluster wants":                                                {"1.2.0", "1.2.0"},
		"the version that is left, when find was not heard":                     {"", "1.1.0"},
		"the version that is left, when the cluster wants the one gone back to": {"1.0.0", "1.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			if tc.heard != "" {
				writeFile(t, i.Paths.LastAnswer(), "")
				must(t, i.lastAnswer(c.Spec, find.Answer{Version: tc.heard, Edition: version.OSS}).Save(i.Paths.LastAnswer()))
			}
			if got := i.heldBy(c, to); got.Version != tc.want || got.Edition != version.OSS {
				t.Errorf("holds back %s (%s); want %s", got.Version, got.Edition, tc.want)
			}
		})
	}
}

func TestOnlyANamedVersionIsTheTargetOfASecondRollback(t *testing.T) {
	at := func(v string) state.Config {
		return state.Config{Spec: state.Spec{ActiveVersion: v}, Status: state.Status{ActiveEdition: version.OSS, PreviousVersion: "1.1.0", PreviousEdition: version.FIPS}}
	}
	held := func(v string) state.Config {
		c := at("1.0.0")
		c.Status.Held = &state.Held{Version: v, Edition: version.OSS, Since: noon}
		return c
	}
	for _, tc := range []struct {
		name    string
		config  state.Config
		named   string
		want    version.Release
		refused string
	}{
		{"the previous version, in its edition", at("1.2.0"), "", version.Release{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"the previous version by name", at("1.2.0"), "1.1.0", version.Release{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"another version by name", at("1.2.0"), "1.0.0", version.Release{Version: "1.0.0", Edition: version.OSS}, ""},
		{"the active version", at("1.2.0"), "1.2.0", version.Release{}, "is active already"},
		{"a second rollback", held("1.1.0"), "", version.Release{}, "rollback 1.1.0`"},
		{"a second rollback, the cluster wants yet another version", held("1.3.0"), "", version.Release{}, "rollback 1.1.0`"},
		{"a second rollback by name", held("1.1.0"), "1.1.0", version.Release{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"never enabled", state.Config{}, "", version.Release{}, "no active version"},
		{"no previous version", state.Config{Spec: state.Spec{ActiveVersion: "1.0.0"}}, "", version.Release{}, "no previous version"},
	} {
		got, err := rollbackTarget(tc.config, tc.named)
		if got != tc.want || (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %v, %v; want %v, %q", tc.name, got, err, tc.want, tc.refused)
		}
	}
}
