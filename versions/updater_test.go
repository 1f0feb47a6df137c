package versions

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionOfABuildIsAmongItsTags(t *testing.T) {
	for tags, want := range map[string]string{
		"":                                     "",
		"urfave_cli_no_docs":                   "",
		"urfave_cli_no_docs,release_1.2.3":     "1.2.3",
		"release_17.0.0_rc.1,netgo":            "17.0.0-rc.1",
		"release_926b7dc":                      "",
		"release_1.2":                          "",
		"release_1.2.0_5_g926b7dc_dirty":       "1.2.0-5-g926b7dc-dirty",
		"prerelease_1.2.3":                     "",
		"release_../../1.2.3,release_2.0.0":    "2.0.0",
		"release_":                             "",
		"urfave_cli_no_docs,release_v1.2.3,xy": "1.2.3",
	} {
		info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "-compiler", Value: "gc"}, {Key: "-tags", Value: tags}}}
		if got := StampedVersion(info); got != want {
			t.Errorf("tags %q: version %q; want %q", tags, got, want)
		}
	}
}
