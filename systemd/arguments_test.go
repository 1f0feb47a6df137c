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
		"the same":                     {release, release, ""},
		"written otherwise":            {"/usr/bin/teleport start --pid-file /run/teleport.pid -c /etc/teleport.yaml", release, ""},
		"FIPS":                         {"/usr/bin/teleport start --fips --pid-file=/run/teleport.pid", release + " --fips", ""},
		"flags with values":            {"/usr/bin/teleport start --roles=node --diag-addr 127.0.0.1:3000 -d", release + " --roles=node --diag-addr 127.0.0.1:3000 -d", ""},
		"a variable":                   {"/usr/bin/teleport start --fips $OPTIONS", release + " --fips $OPTIONS", ""},
		"another PID file":             {"/usr/bin/teleport start --pid-file=/run/other.pid", release, ""},
		"another configuration":        {"/usr/bin/teleport start --config=/etc/other.yaml --fips", release + " --fips", "--config=/etc/other.yaml"},
		"another program":              {"/opt/run-teleport --fips", release, ""},
		"in quotes":                    {`/usr/bin/teleport start --data-dir "/srv/a" '--fips'`, release + " --data-dir /srv/a --fips", ""},
		"lines that go on":             {"/usr/bin/teleport start \\\n  --pid-file=/run/teleport.pid \\\n# why\n  --data-dir=/srv/a", release + " --data-dir=/srv/a", ""},
		"a variable in quotes":         {`/usr/bin/teleport start "--data-dir=${DIR}"`, release + " --data-dir=${DIR}", ""},
		"a variable that is none":      {`:/usr/bin/teleport start --token=a$b`, release + " --token=a$$b", ""},
		"another name of the program":  {"@/usr/bin/teleport start start --fips", release + " --fips", ""},
		"a configuration in quotes":    {`/usr/bin/teleport start --config "/etc/other.yaml"`, release, "--config /etc/other.yaml"},
		"a command that is taken back": {"/usr/bin/teleport start --debug\nExecStart =\nExecStart = /usr/bin/teleport start --fips", release + " --fips", ""},
		"none":                         {"", release, ""},
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

// A release's unit may be written in several lines, too.
func TestArgumentsAreAddedToTheCommandOfAUnit(t *testing.T) {
	more := []Argument{{Name: "--fips", Words: []string{"--fips"}}, {Name: "--data-dir", Words: []string{"--data-dir", "/srv/a"}}}
	for before, after := range map[string]string{
		"[Service]\nExecStart=/a start  \t\nX=1\n":                      "[Service]\nExecStart=/a start --fips --data-dir /srv/a\nX=1\n",
		"[Service]\nExecStart=/a start \\\n  -d\nX=1\n":                 "[Service]\nExecStart=/a start \\\n  -d --fips --data-dir /srv/a\nX=1\n",
		"[Service]\nExecStart=/a start \\\n# -x\n\nX=1\n":               "[Service]\nExecStart=/a start \\\n# -x\n --fips --data-dir /srv/a\nX=1\n",
		"[Service]\nExecStart=/a start \\\n":                            "[Service]\nExecStart=/a start --fips --data-dir /srv/a\\\n",
		"[Service]\r\nExecStart=/a start\r\n":                           "[Service]\r\nExecStart=/a start --fips --data-dir /srv/a\r\n",
		"[Service]\nExecStart=/a\nExecStart=\nExecStart=/b start":       "[Service]\nExecStart=/a\nExecStart=\nExecStart=/b start --fips --data-dir /srv/a",
		"[Unit]\nExecStart=/x start\n[Service]\nExecStart = /a start\n": "[Unit]\nExecStart=/x start\n[Service]\nExecStart = /a start --fips --data-dir /srv/a\n",
		"[Service]\nExecReload=/a\n":                                    "[Service]\nExecReload=/a\n",
	} {
		got := string(WithArguments([]byte(before), more))
		if got != after {
			t.Errorf("%q becomes %q; want %q", before, got, after)
		}
		if read := UnitArguments([]byte(got)); strings.Contains(after, "--fips") && len(read) < 2 {
			t.Errorf("of %q %v are read", got, read)
		}
	}
}

func TestArgumentsThatNeedQuotes(t *testing.T) {
	for words, plain := range map[string]bool{
		"--fips": true, "--data-dir=${DIR}": true, "--labels=a=b,c=d": true, "--data-dir /srv/ü": true,
		`--labels="a=b c"`: false, `--a=b\x20c`: false, `--a=b\\c`: false, `--a="it's"`: false, `--a ""`: false, `--a=b\tc`: false,
	} {
		if got := UnitArguments([]byte("[Service]\nExecStart=/a start " + words + "\n"))[0]; got.Plain() != plain {
			t.Errorf("%s, read as %q: plain %t; want %t", words, got.Words, got.Plain(), plain)
		}
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
