//go:build hosts

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// refusedAnswer is a case of an answer of find that must not be acted on.
func refusedAnswer(name, answer, says string) hostile {
	return hostile{name: name, says: says, serves: func(w *world) { w.answer = answer }}
}

// refusedFind is one of a server that does more than answer.
func refusedFind(name, says string, find http.HandlerFunc) hostile {
	return hostile{name: name, says: says, serves: func(w *world) { w.find = find }}
}

func findCases() []hostile {
	const (
		notJSON = "not the JSON of a find endpoint"
		twice   = "appears twice"
		jitter  = "want a whole number from 0 to 86400"
	)
	flat := func(version string) string {
		return fmt.Sprintf(`{"server_edition":"oss","agent_version":%s,"agent_autoupdate":true}`, version)
	}
	nested := func(version string) string {
		return fmt.Sprintf(`{"edition":"oss","auto_update":{"agent_version":%s,"agent_auto_update":true}}`, version)
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	cases := []hostile{
		// Versions that lead elsewhere or are none.
		refusedAnswer("the version is a path", flat(`"../../../tmp/evil"`), "is not a semantic version"),
		refusedAnswer("the version is an absolute path", flat(`"/etc"`), "is not a semantic version"),
		refusedAnswer("the version ends in a path", flat(`"1.1.0/.."`), "is not a semantic version"),
		refusedAnswer("the version begins with a path", flat(`"./1.1.0"`), "is not a semantic version"),
		refusedAnswer("the version holds a path behind its build", flat(`"1.1.0+/../../x"`), "is not a semantic version"),
		refusedAnswer("the version holds a NUL", flat(`"1.1.0\u0000x"`), "is not a semantic version"),
		refusedAnswer("the version holds a new line", flat(`"1.1.0\nerror: all is lost"`), "is not a semantic version"),
		refusedAnswer("the version holds an escape sequence", flat(`"1.1.0\u001b[2J"`), "is not a semantic version"),
		refusedAnswer("the version holds a space", flat(`"1.1.0 --force"`), "is not a semantic version"),
		refusedAnswer("the version is a flag", flat(`"--help"`), "is not a semantic version"),
		refusedAnswer("the version holds a template", flat(`"{{.Version}}"`), "is not a semantic version"),
		refusedAnswer("the version holds a shell's words", flat(`"1.1.0-$(reboot)"`), "is not a semantic version"),
		refusedAnswer("the version holds a query", flat(`"1.1.0?x=y"`), "is not a semantic version"),
		refusedAnswer("the version holds a host", flat(`"1.1.0@evil.example"`), "is not a semantic version"),
		refusedAnswer("the version is escaped as in a URL", flat(`"1.1.0%2f..%2fx"`), "is not a semantic version"),
		refusedAnswer("the version uses other digits", flat(`"١.١.٠"`), "is not a semantic version"),
		refusedAnswer("the version has two parts", flat(`"1.1"`), "is not a semantic version"),
		refusedAnswer("the version has leading zeros", flat(`"01.1.0"`), "is not a semantic version"),
		refusedAnswer("the version is a word", flat(`"latest"`), "is not a semantic version"),
		refusedAnswer("the version is of a kilobyte", flat(`"1.1.`+strings.Repeat("9", 1000)+`"`), "is longer than 64 characters"),
		refusedAnswer("the version is one letter", flat(`"v"`), "the version is empty"),
		refusedAnswer("the version is missing", `{"server_edition":"oss"}`, "there is no agent_version in it"),
		refusedAnswer("the version is null", flat(`null`), "there is no agent_version in it"),
		refusedAnswer("the version is a number", flat(`1.1`), "agent_version is 1.1, want a string"),
		refusedAnswer("the version is a list", flat(`["1.1.0"]`), "want a string"),
		refusedAnswer("the version is an object", flat(`{"a":"1.1.0"}`), "want a string"),
		refusedAnswer("the nested version is a path", nested(`"../../x"`), "is not a semantic version"),
		refusedAnswer("the nested version is missing", `{"edition":"oss","auto_update":{}}`, "there is no agent_version in it"),
		refusedAnswer("the nested settings are a list", `{"edition":"oss","auto_update":["1.1.0"]}`, "auto_update: it is not an object"),
		refusedAnswer("the version is that of another name", `{"server_edition":"oss","Agent_Version":"1.1.0"}`, "there is no agent_version in it"),

		// Editions.
		refusedAnswer("the edition is unknown", `{"server_edition":"gold","agent_version":"1.1.0"}`, `edition "gold" is not one of`),
		refusedAnswer("the edition is a path", `{"server_edition":"../x","agent_version":"1.1.0"}`, "is not one of"),
		refusedAnswer("the edition is empty", `{"server_edition":"","agent_version":"1.1.0"}`, "is not one of"),
		refusedAnswer("the edition is a number", `{"server_edition":7,"agent_version":"1.1.0"}`, "want a string"),
		refusedAnswer("the edition is missing", `{"agent_version":"1.1.0"}`, "there is neither server_edition nor edition in it"),
		refusedAnswer("the edition is of a kilobyte", `{"server_edition":"`+strings.Repeat("x", 1000)+`","agent_version":"1.1.0"}`, "is not one of"),
		refusedAnswer("the nested edition is unknown", `{"edition":"gold","auto_update":{"agent_version":"1.1.0"}}`, "there is no edition"),
		refusedAnswer("the community edition claims to be FIPS", `{"edition":"oss","fips":true,"auto_update":{"agent_version":"1.1.0"}}`, "there is no edition"),
		refusedAnswer("fips is a word", `{"edition":"ent","fips":"yes","auto_update":{"agent_version":"1.1.0"}}`, "want true or false"),

		// Flags and jitter.
		refusedAnswer("the flag is a word", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":"true"}`, "want true or false"),
		refusedAnswer("the flag is a number", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":1}`, "want true or false"),
		refusedAnswer("the jitter is negative", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":true,"agent_update_jitter_seconds":-1}`, jitter),
		refusedAnswer("the jitter is longer than a day", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":true,"agent_update_jitter_seconds":86401}`, jitter),
		refusedAnswer("the jitter is beyond every integer", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":true,"agent_update_jitter_seconds":99999999999999999999}`, jitter),
		refusedAnswer("the jitter is infinite", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":true,"agent_update_jitter_seconds":1e999}`, jitter),
		refusedAnswer("the jitter is a fraction", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":true,"agent_update_jitter_seconds":0.5}`, jitter),
		refusedAnswer("the jitter is a word", `{"server_edition":"oss","agent_version":"1.1.0","agent_autoupdate":true,"agent_update_jitter_seconds":"10"}`, jitter),

		// What is no such JSON.
		refusedAnswer("the answer is empty", "", "it is empty"),
		refusedAnswer("the answer is white space", " \n\t ", "it is empty"),
		refusedAnswer("the answer is null", "null", "it is not an object"),
		refusedAnswer("the answer is a list", `[{"agent_version":"1.1.0"}]`, "it is not an object"),
		refusedAnswer("the answer is a string", `"1.1.0"`, "it is not an object"),
		refusedAnswer("the answer is noise", "\x00\x01\xff\xfe", notJSON),
		refusedAnswer("the answer is UTF-16", "\xff\xfe{\x00}\x00", notJSON),
		refusedAnswer("the answer begins with a byte order mark", "\xef\xbb\xbf"+flat(`"1.1.0"`), notJSON),
		refusedAnswer("the answer breaks off", `{"server_edition":"oss","agent_ver`, "it ends in the middle"),
		refusedAnswer("the answer lacks its end", strings.TrimSuffix(flat(`"1.1.0"`), "}"), "it ends in the middle"),
		refusedAnswer("the answer has a second object", flat(`"1.1.0"`)+flat(`"6.6.6"`), "more follows after the object"),
		refusedAnswer("the answer has a comment", `/* */`+flat(`"1.1.0"`), notJSON),
		refusedAnswer("the answer has a comma too many", `{"server_edition":"oss","agent_version":"1.1.0",}`, notJSON),
		refusedAnswer("the answer is YAML", "server_edition: oss\nagent_version: 1.1.0\n", notJSON),
		refusedAnswer("the answer is XML", `<?xml version="1.0"?><agent_version>1.1.0</agent_version>`, "a web page"),
		refusedAnswer("a name comes twice", `{"server_edition":"oss","agent_version":"1.1.0","agent_version":"6.6.6"}`, twice),
		refusedAnswer("a name comes twice, escaped", `{"server_edition":"oss","agent_version":"1.1.0","agent\u005fversion":"6.6.6"}`, twice),
		refusedAnswer("a nested name comes twice", `{"edition":"oss","auto_update":{"agent_version":"1.1.0","agent_version":"6.6.6"}}`, twice),
		refusedAnswer("lists are nested a hundred thousand deep", `{"x":`+strings.Repeat("[", 100000), notJSON),
		refusedAnswer("objects are nested a hundred thousand deep", strings.Repeat(`{"x":`, 100000), notJSON),
		refusedAnswer("there are a hundred thousand names", "{"+strings.Repeat(`"x":1,`, 100000)+`"y":1}`, twice),
		refusedAnswer("the answer is of two megabytes", `{"x":"`+strings.Repeat("x", 2<<20)+`"}`, "the answer is larger than 1048576 bytes"),
		refusedAnswer("the answer is white space of two megabytes", strings.Repeat(" ", 2<<20), "the answer is larger than 1048576 bytes"),
		refusedAnswer("the answer is a web page with escape sequences", "<html>\x1b]0;owned\x07\x1b[2J</html>", "a web page (of a captive portal, or a login page?)"),

		// Servers.
		refusedFind("the answer never ends", "the answer is larger than 1048576 bytes", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"x":"`)
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		}),
		refusedFind("the answer is a captive portal", "a web page (of a captive portal, or a login page?)", status(200, "<!DOCTYPE html><title>Hotel WiFi</title>")),
		refusedFind("the answer is not found on either path", "404 at /v1/webapi/find too", status(404, "nothing here")),
		refusedFind("the server fails", "the answer is 500 Internal Server Error", status(500, "backend is down")),
		refusedFind("the server is overloaded", "the answer is 503", status(503, "")),
		refusedFind("the server limits rates", "the answer is 429", status(429, "")),
		refusedFind("the server asks for a password", "the answer is 401", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(401)
		}),
		refusedFind("the server forbids it", "the answer is 403", status(403, "")),
		refusedFind("the server says that nothing changed", "the answer is 304", status(304, "")),
		refusedFind("the server has no content", "the answer is 204", status(204, "")),
		refusedFind("the server sends part of an answer", "the answer is 206", status(206, flat(`"1.1.0"`))),
		refusedFind("the server sends a teapot's megabyte", "the answer is 418", status(418, strings.Repeat("teapot ", 1<<18))),
		refusedFind("the answer is compressed although nobody asked for that", notJSON, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(gz([]byte(flat(`"1.1.0"`))))
		}),
		refusedFind("the server redirects down from https", "refused a redirect from https to http://127.0.0.1:1", redirect("http://127.0.0.1:1/v1/webapi/find")),
		refusedFind("the server redirects to a file", "refused a redirect from https to file:///etc/shadow", redirect("file:///etc/shadow")),
		refusedFind("the server redirects to another scheme", "refused a redirect from https to gopher://127.0.0.1/x", redirect("gopher://127.0.0.1/x")),
		refusedFind("the server redirects to itself for ever", "gave up after 10 redirects", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"?n="+fmt.Sprint(time.Now().UnixNano()), http.StatusFound)
		}),
		refusedFind("the server redirects to nowhere", "", redirect("")),
		refusedFind("the server redirects to what is no URL", "", redirect("https://[::1")),
		refusedFind("the server redirects with a password", "xxxxx", redirect("http://127.0.0.1:1/?token=planted-redirect")),
		refusedFind("the server sends a hundred kilobytes of headers", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Much", strings.Repeat("x", 100<<10))
			io.WriteString(w, flat(`"1.1.0"`))
		}),
		refusedFind("the server hangs up", "the server closed the connection without an answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
	}
	for i := range cases {
		// What find says is the first thing that a first enable asks for, too.
		if i%8 == 0 {
			c := cases[i]
			c.name, c.bare, c.run = c.name+", at the first enable", true, []string{"enable", "--proxy", "$PROXY", "--template", "$TEMPLATE", "--ca-file", "$CA"}
			cases = append(cases, c)
		}
	}
	return append(cases, unnamedCases()...)
}

// unnamedCases are answers with an empty version, by which a server that knows of none says
// so. A host then has nothing to do, whatever else the answer holds; only a first enable has
// nothing to go on with.
func unnamedCases() []hostile {
	empty := `{"server_edition":"oss","agent_version":"","agent_autoupdate":true}`
	hides := `{"edition":"oss","agent_version":"","auto_update":{"agent_version":"1.1.0","agent_auto_update":true}}`
	idle := func(name, answer string) hostile {
		c := refusedAnswer(name, answer, "the cluster names no version for this host")
		c.code = done
		return c
	}
	bare := refusedAnswer("the version is empty, at the first enable", empty, "and there is none on it; nothing was changed: set a version in the cluster")
	bare.bare, bare.run = true, []string{"enable", "--proxy", "$PROXY", "--template", "$TEMPLATE", "--ca-file", "$CA"}
	return []hostile{idle("the version is empty", empty), idle("an empty flat version hides a nested one", hides), bare}
}
