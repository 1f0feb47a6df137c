package systemd

import (
	"slices"
	"strings"
	"testing"
)

func TestArgumentsThatAUnitHadAreKept(t *testing.T) {
	const release = "/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid"
	for name, tc := range map[string]struct {
		host, want    string // want: the command then
		contradicting string
	}{
		"the same":                      {release, release, ""},
		"written otherwise":             {"/usr/bin/teleport start --pid-file /run/teleport.pid -c /etc/teleport.yaml", release, ""},
		"FIPS":                          {"/usr/bin/teleport start --fips --pid-file=/run/teleport.pid", release + " --fips", ""},
		"flags with values":             {"/usr/bin/teleport start --roles=node --diag-addr 127.0.0.1:3000 -d", release + " --roles=node --diag-addr 127.0.0.1:3000 -d", ""},
		"a variable":                    {"/usr/bin/teleport start --fips $OPTIONS", release + " --fips $OPTIONS", ""},
		"another PID file":              {"/usr/bin/teleport start --pid-file=/run/other.pid", release, ""},
		"another configuration":         {"/usr/bin/teleport start --config=/etc/other.yaml --fips", release + " --fips", "--config=/etc/other.yaml"},
		"another program":               {"/opt/run-teleport --fips", release, ""},
		"what takes quotes is not read": {`/usr/bin/teleport start --labels "a=b c"`, release, ""},
		"none":                          {"", release, ""},
	} {
		t.Run(name, func(t *testing.T) {
			unit := func(command string) []byte {
				return []byte("[Service]\nType=simple\nExecStart=" + command + "\nRestart=always\n")
			}
			missing, contradicting := Missing(UnitArguments(unit(tc.host)), UnitArguments(unit(release)))
			if got := string(WithArguments(unit(release), missing)); got != string(unit(tc.want)) {
				t.Errorf("the unit is\n%s\nwant\n%s", got, unit(tc.want))
			}
			if got := strings.Join(Texts(contradicting), " "); got != tc.contradicting {
				t.Errorf("%q contradicts; want %q", got, tc.contradicting)
			}
		})
	}
}

func TestArgumentsAreReadAsTheAgentReadsThem(t *testing.T) {
	got := Texts(Arguments([]string{"teleport", "start", "-c", "/etc/t.yaml", "--fips", "--roles=a,b", "$X"}))
	if want := []string{"-c /etc/t.yaml", "--fips", "--roles=a,b", "$X"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	joined := Texts(Arguments([]string{"teleport", "start", "-dc/etc/t.yaml", "-c=/etc/u.yaml", "-rnode"}))
	if want := []string{"-d", "-c /etc/t.yaml", "-c=/etc/u.yaml", "-r node"}; !slices.Equal(joined, want) {
		t.Errorf("got %q; want %q", joined, want)
	}
	if all := Arguments([]string{"teleport", "version"}); all != nil {
		t.Errorf("a command that starts nothing has %v", all)
	}
}
