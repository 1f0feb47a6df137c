package host

import (
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/versions/fetch"
)

func TestTheSettingsOfTeleportsOwnUpdaterAreRead(t *testing.T) {
	const head = "version: v1\nkind: update_config\n"
	for name, tc := range map[string]struct {
		text string
		want OthersSettings
		fail string
	}{
		"all of them": {
			text: head + "spec:\n  proxy: example.teleport.sh:443\n  path: /usr/local/bin\n  group: staging\n  base_url: https://mirror.example.com/teleport/\n  enabled: true\n  pinned: true\n" +
				"status:\n  id_file: /tmp/teleport-update.id\n  active:\n    version: 17.3.1\n    flags: [Enterprise, FIPS]\n",
			want: OthersSettings{Proxy: "example.teleport.sh:443", Group: "staging", Pinned: true, Active: version.Release{Version: "17.3.1", Edition: version.FIPS},
				Template: strings.Replace(fetch.DefaultTemplate, "https://cdn.teleport.dev", "https://mirror.example.com/teleport", 1)},
		},
		"the community's edition, from the usual place": {
			text: head + "spec:\n  proxy: example.com\nstatus:\n  active: {version: 17.3.1}\n",
			want: OthersSettings{Proxy: "example.com", Active: version.Release{Version: "17.3.1", Edition: version.OSS}},
		},
		"nothing was ever installed":   {text: head + "spec:\n  enabled: false\n", want: OthersSettings{}},
		"a place that nobody trusts":   {text: head + "spec:\n  base_url: http://mirror.example.com\n", fail: "base_url of the other updater is not taken over"},
		"a version that is a path":     {text: head + "status:\n  active:\n    version: ../17\n", fail: "read the settings of the other updater"},
		"a file that is not a mapping": {text: "nonsense", fail: "repair the file"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseOthersSettings([]byte(tc.text))
			switch {
			case tc.fail != "":
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("the error is %v; want %q in it", err, tc.fail)
				}
			case err != nil || got != tc.want:
				t.Errorf("read %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}
