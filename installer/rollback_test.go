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
				writeFile(t, i.Machine.Host.Paths.LastAnswer(), "")
				must(t, i.finder().lastAnswer(c.Spec, find.Answer{Version: tc.heard, Edition: version.OSS}).Save(i.Machine.Host.Paths.LastAnswer()))
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
	failed := func(v string) state.Config {
		c := at("1.0.0")
		c.Status.Failed = &state.Failed{Version: v, Edition: version.FIPS, Error: "it crashed"}
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
		{"a previous version that failed", failed("1.1.0"), "", version.Release{}, "failed on this host: it crashed"},
		{"a previous version that failed, and how to go there", failed("1.1.0"), "", version.Release{}, "rollback 1.1.0`"},
		{"a previous version that failed, by name", failed("1.1.0"), "1.1.0", version.Release{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"the previous version, and another failed", failed("1.2.0"), "", version.Release{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"never enabled", state.Config{}, "", version.Release{}, "no active version"},
		{"no previous version", state.Config{Spec: state.Spec{ActiveVersion: "1.0.0"}}, "", version.Release{}, "no previous version"},
	} {
		got, err := rollbackTarget(tc.config, tc.named)
		if got != tc.want || (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %v, %v; want %v, %q", tc.name, got, err, tc.want, tc.refused)
		}
	}
}

func TestRollbackTarget(t *testing.T) {
	c := state.Config{
		Spec:   state.Spec{ActiveVersion: "15.1.2"},
		Status: state.Status{ActiveEdition: version.Enterprise, PreviousVersion: "15.1.1", PreviousEdition: version.OSS},
	}
	back := c
	back.Spec.ActiveVersion, back.Status.PreviousVersion = "15.1.1", "15.1.2"
	back.Status.Held = &state.Held{Version: "15.1.2"}
	for _, tc := range []struct {
		name    string
		c       state.Config
		version string
		want    version.Release
		refusal string
	}{
		{name: "the previous version, in its own edition", c: c, want: version.Release{Version: "15.1.1", Edition: version.OSS}},
		{name: "the previous version by name", c: c, version: "15.1.1", want: version.Release{Version: "15.1.1", Edition: version.OSS}},
		{name: "another version, in the active edition", c: c, version: "15.0.0", want: version.Release{Version: "15.0.0", Edition: version.Enterprise}},
		{name: "the active version", c: c, version: "15.1.2", refusal: "active already"},
		{name: "nothing active", c: state.Config{}, refusal: "no active version"},
		{name: "nothing previous", c: state.Config{Spec: state.Spec{ActiveVersion: "1.0.0"}}, refusal: "no previous version"},
		{name: "a second rollback must name its version", c: back, refusal: "name the version"},
		{name: "a second rollback that does", c: back, version: "15.1.2", want: version.Release{Version: "15.1.2", Edition: version.OSS}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := rollbackTarget(tc.c, tc.version)
			if tc.refusal == "" && (err != nil || got != tc.want) {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
			if tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)) {
				t.Errorf("got %v, %v; want a refusal with %q", got, err, tc.refusal)
			}
		})
	}
}
