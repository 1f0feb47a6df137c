package find

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"teleport-update/internal/version"
)

func TestDecode(t *testing.T) {
	flat := Answer{Version: "15.1.1", Edition: version.Enterprise, AutoUpdate: true, Jitter: 10 * time.Second}
	for _, tc := range []struct {
		name, body string
		want       Answer
	}{
		{"no version, as a server says that knows none", `{"server_edition":"oss","agent_version":"","agent_autoupdate":false,"agent_update_jitter_seconds":0,"edition":"oss","fips":false,` +
			`"auto_update":{"agent_version":"","agent_auto_update":false,"agent_update_jitter_seconds":0,"tools_version":"","tools_autoupdate":false,"tools_auto_update":false}}`,
			Answer{Edition: version.OSS}},
		{"a nested shape without a version", `{"edition":"ent","auto_update":{"agent_version":"","agent_auto_update":true,"agent_update_jitter_seconds":60}}`, Answer{Edition: version.Enterprise}},
		{"the flat shape of RFD 0169",
			`{"server_edition": "enterprise", "agent_version": "15.1.1", "agent_autoupdate": true, "agent_update_jitter_seconds": 10}`, flat},
		{"the nested shape of Managed Updates v2",
			`{"edition":"ent","fips":false,"auto_update":{"agent_version":"15.1.1","agent_auto_update":true,"agent_update_jitter_seconds":10}}`, flat},
		{"nested, with what real proxies add",
			`{"auth":{"type":"local"},"proxy":{"kube":{"enabled":true}},"server_version":"17.0.0","cluster_name":"x","edition":"ent","fips":true,` +
				`"auto_update":{"tools_version":"17.0.0","tools_auto_update":false,"agent_version":"v17.0.0","agent_auto_update":false,"agent_update_jitter_seconds":60}}` + "\n",
			Answer{Version: "17.0.0", Edition: version.FIPS, AutoUpdate: false, Jitter: time.Minute}},
		{"flat wins over nested, whole",
			`{"server_edition":"oss","agent_version":"15.1.1","edition":"ent","auto_update":{"agent_version":"16.0.0","agent_auto_update":true,"agent_update_jitter_seconds":60}}`,
			Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: 0}},
		{"flat without server_edition takes edition", `{"agent_version":"15.1.1","edition":"community"}`, Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: 0}},
		{"nested with server_edition", `{"server_edition":"enterprise-fips","edition":"oss","auto_update":{"agent_version":"15.1.1"}}`, Answer{Version: "15.1.1", Edition: version.FIPS, AutoUpdate: false, Jitter: 0}},
		{"nested oss", `{"edition":"oss","auto_update":{"agent_version":"15.1.1"}}`, Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: 0}},
		{"a leading v is dropped", `{"server_edition":"oss","agent_version":"v15.1.1-rc.1+b"}`, Answer{Version: "15.1.1-rc.1+b", Edition: version.OSS, AutoUpdate: false, Jitter: 0}},
		{"null is missing", `{"server_edition":null,"edition":"oss","agent_version":"15.1.1","agent_autoupdate":null,"agent_update_jitter_seconds":null,"auto_update":null}`,
			Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: 0}},
		{"names of other letters are other names", `{"server_edition":"oss","agent_version":"15.1.1","AGENT_VERSION":"6.6.6","Agent_AutoUpdate":true}`,
			Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: 0}},
		{"the longest jitter", `{"server_edition":"oss","agent_version":"15.1.1","agent_update_jitter_seconds":86400}`, Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: MaxJitter}},
		{"space around", " \r\n{\"server_edition\":\"oss\",\"agent_version\":\"15.1.1\"}\r\n\t ", Answer{Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode([]byte(tc.body))
			if got != tc.want || err != nil {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	const rest = `"server_edition":"oss","agent_version":"15.1.1"`
	for _, tc := range []struct{ name, body, want string }{
		{"nothing", ``, "empty"},
		{"a web page", `<html>`, "not the JSON of a find endpoint (invalid from byte 1 on)"},
		{"a list", `[{` + rest + `}]`, "not an object"},
		{"null", `null`, "not an object"},
		{"cut in the middle of a value", `{"server_edition":"oss","agent_version":"15.1`, "it ends in the middle"},
		{"cut before the end", `{` + rest, "it ends in the middle"},
		{"cut after a comma", `{` + rest + `,`, "it ends in the middle"},
		{"a second object", `{` + rest + `}{}`, "follows"},
		{"garbage after the object", `{` + rest + `}x`, "follows"},
		{"a name twice", `{` + rest + `,"agent_version":"6.6.6"}`, `"agent_version" appears twice`},
		{"a name twice, once escaped", `{` + rest + `,"\u0061gent_version":"6.6.6"}`, "twice"},
		{"a name twice, first null", `{"agent_version":null,` + rest + `}`, "twice"},
		{"a nested name twice", `{"edition":"oss","auto_update":{"agent_version":"1.0.0","agent_version":"2.0.0"}}`, "auto_update: "},
		{"no version", `{"server_edition":"oss"}`, "no agent_version"},
		{"no version, nested", `{"edition":"oss","auto_update":{}}`, "no agent_version"},
		{"only a version of other letters", `{"server_edition":"oss","Agent_Version":"15.1.1"}`, "no agent_version"},
		{"not semantic", `{"server_edition":"oss","agent_version":"15.1"}`, "semantic"},
		{"a path", `{"server_edition":"oss","agent_version":"../../etc"}`, "semantic"},
		{"a number", `{"server_edition":"oss","agent_version":15}`, "agent_version is 15, want a string"},
		{"no edition", `{"agent_version":"15.1.1"}`, "neither server_edition nor edition"},
		{"unknown server_edition", `{"agent_version":"15.1.1","server_edition":"ent"}`, "server_edition"},
		{"unknown edition", `{"agent_version":"15.1.1","edition":"gold"}`, "gold"},
		{"an OSS FIPS build", `{"agent_version":"15.1.1","edition":"oss","fips":true}`, "fips"},
		{"edition a number", `{"agent_version":"15.1.1","edition":1}`, "want a string"},
		{"fips a string", `{"agent_version":"15.1.1","edition":"ent","fips":"true"}`, "want true or false"},
		{"autoupdate a string", `{` + rest + `,"agent_autoupdate":"true"}`, "agent_autoupdate is"},
		{"negative jitter", `{` + rest + `,"agent_update_jitter_seconds":-1}`, "jitter_seconds is -1"},
		{"huge jitter", `{` + rest + `,"agent_update_jitter_seconds":86401}`, "86401"},
		{"jitter beyond every integer", `{` + rest + `,"agent_update_jitter_seconds":1e99}`, "1e99"},
		{"part of a second", `{` + rest + `,"agent_update_jitter_seconds":0.5}`, "0.5"},
		{"jitter a string", `{` + rest + `,"agent_update_jitter_seconds":"10"}`, `"10"`},
		{"a retry that is no time", `{` + rest + `,"retry_failed":"yesterday"}`, "retry_failed is"},
		{"a retry that is a number", `{` + rest + `,"retry_failed":1}`, "retry_failed is 1"},
		{"auto_update a list", `{"edition":"oss","auto_update":["15.1.1"]}`, "auto_update: it is not an object"},
		{"too deep", `{"a":` + strings.Repeat("[", 20000), "not the JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode([]byte(tc.body))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v; want an error with %q", got, err, tc.want)
			}
		})
	}
}

// FuzzDecode: whatever a server sends, what decode lets through is an answer
// that a host can act on, and one that the server's side of the contract would
// write the same way.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := decode(body)
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsGraphic(r) }) {
				t.Errorf("the error is not fit for a terminal: %q", err)
			}
			return
		}
		again, err := answer.Body()
		if err != nil {
			t.Fatalf("%+v cannot be served: %v", answer, err)
		}
		if got, err := decode(again); got != answer || err != nil {
			t.Errorf("%+v became %+v, %v", answer, got, err)
		}
	})
}

func TestBodyIsReadAlikeInBothShapes(t *testing.T) {
	for _, answer := range []Answer{
		{Version: "15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: 10 * time.Second},
		{Version: "16.0.0-rc.1+b", Edition: version.Enterprise, AutoUpdate: false, Jitter: 0},
		{Version: "15.1.1", Edition: version.OSS, GroupUnknown: true},
		{Version: "15.1.1", Edition: version.FIPS, AutoUpdate: true, Jitter: MaxJitter},
		{Version: "15.1.1", Edition: version.OSS, ReleaseTemplate: "https://find.example.com/{{.Version}}<&>'.tar.gz"},
	} {
		body, err := answer.Body()
		if err != nil {
			t.Fatal(err)
		}
		nested := strings.NewReplacer(`"server_edition"`, `"a"`, `{"agent_version"`, `{"agent_version"`, `,"agent_version"`, `,"b"`).Replace(string(body))
		if nested == string(body) {
			t.Fatal("the flat shape could not be taken away")
		}
		for _, body := range []string{string(body), nested} {
			if got, err := decode([]byte(body)); got != answer || err != nil {
				t.Errorf("%s\nis read as %+v, %v; want %+v", body, got, err, answer)
			}
		}
	}
}

func TestBodyOfNoVersionTellsHostsToDoNothing(t *testing.T) {
	body, err := Answer{Edition: version.OSS}.Body()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"server_edition":"oss","agent_version":"","agent_autoupdate":false,"agent_update_jitter_seconds":0,` +
		`"edition":"oss","fips":false,"auto_update":{"agent_version":"","agent_auto_update":false,"agent_update_jitter_seconds":0,` +
		`"tools_version":"","tools_autoupdate":false,"tools_auto_update":false}}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestWhatClientToolsAreTold(t *testing.T) {
	for _, tc := range []struct {
		answer Answer
		want   string
	}{
		{Answer{Version: "15.1.1"}, `"tools_version":"15.1.1","tools_autoupdate":false,"tools_auto_update":false}}`},
		{Answer{Version: "15.1.1", ToolsAutoUpdate: true}, `"tools_version":"15.1.1","tools_autoupdate":true,"tools_auto_update":true}}`},
		{Answer{Version: "15.1.1", ToolsVersion: "15.1.0", ToolsAutoUpdate: true}, `"tools_version":"15.1.0","tools_autoupdate":true,"tools_auto_update":true}}`},
		{Answer{ToolsAutoUpdate: true}, `"tools_version":"","tools_autoupdate":false,"tools_auto_update":false}}`},
	} {
		tc.answer.Edition = version.OSS
		if body, err := tc.answer.Body(); err != nil || !strings.HasSuffix(string(body), tc.want) {
			t.Errorf("%+v is %s, %v; want %s", tc.answer, body, err, tc.want)
		}
	}
}

func TestBodyRefuses(t *testing.T) {
	for _, answer := range []Answer{
		{Version: "v15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: 0},
		{Version: "15.1", Edition: version.OSS, AutoUpdate: true, Jitter: 0},
		{Version: "15.1.1", Edition: "", AutoUpdate: true, Jitter: 0},
		{Version: "15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: -time.Second},
		{Version: "15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: time.Millisecond},
		{Version: "15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: MaxJitter + time.Second},
		{Version: "15.1.1", Edition: version.OSS, ToolsVersion: "v15.1.1"},
		{Version: "15.1.1", Edition: version.OSS, ToolsVersion: "latest"},
	} {
		if body, err := answer.Body(); err == nil {
			t.Errorf("%+v was served as %s", answer, body)
		}
	}
}

func TestExcerpt(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"short", "hello", "hello"},
		{"lines are joined", " a\r\n\t b ", "a b"},
		{"no escapes reach the terminal", "a\x1b[1m\x00c\x7f\u202ed", "a [1m c d"},
		{"no broken characters", "a\xff\xfeb", "a b"},
		{"long", "0123456789abc", "0123456789…"},
		{"cut between characters", "012345678é", "012345678…"},
		{"mostly space", strings.Repeat(" ", 100) + "a", "…"},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Excerpt([]byte(tc.in), 10); got != tc.want {
				t.Errorf("got %q; want %q", got, tc.want)
			}
		})
	}
}

// What stands in front of proxies, and clusters of old, in words that help.
func TestWhatIsNoAnswerIsNamed(t *testing.T) {
	const flat = `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":true}`
	for name, tc := range map[string]struct{ body, says string }{
		"a byte order mark":          {"\xef\xbb\xbf" + flat, "byte order mark"},
		"UTF-16":                     {"\xff\xfe{\x00", "byte order mark"},
		"gzip that nobody asked for": {"\x1f\x8b\x08\x00\x00", "it is compressed"},
		"a cluster of version 12":    {`{"server_version":"12.4.10","cluster_name":"old","automatic_upgrades":false}`, "the cluster runs Teleport 12.4.10 and names no version for its agents"},
		"a cluster with tools alone": {`{"server_version":"16.1.0","auto_update":{"tools_version":"16.1.0"},"edition":"ent","fips":false}`, "the cluster runs Teleport 16.1.0"},
		"a version that is none":     {`{"server_version":"\u001b[2J"}`, "what answered is no proxy"},
		"another program's JSON":     {`{"status":"ok"}`, "what answered is no proxy"},
		"a version that is a number": {`{"server_version":12}`, "what answered is no proxy"},
	} {
		if _, err := decode([]byte(tc.body)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
}
