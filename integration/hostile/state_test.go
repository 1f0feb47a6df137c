//go:build hosts

package hostile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"teleport-update/installer/state"
)

// wrong are the ways in which a file can be something else than a file of ours.
var wrong = []struct {
	name string
	make func(w *world, path string)
}{
	{"is a link to somebody else's file", func(w *world, path string) { w.link(w.outside("secret"), path) }},
	{"is a link to nothing", func(w *world, path string) { w.link(w.outside("nothing"), path) }},
	{"is a pipe", func(w *world, path string) { w.fifo(path) }},
	{"is a device without end", func(w *world, path string) { w.zero(path) }},
	{"is a folder", func(w *world, path string) { w.folder(path) }},
}

// foreign are the ways in which somebody else may have written it.
var foreign = []struct {
	name string
	make func(w *world, path string)
	says string
}{
	{"belongs to another user", func(w *world, path string) { w.chown(path, 1234) }, "belongs to user 1234, not to root"},
	{"may be written by a group", func(w *world, path string) { w.chmod(path, 0o660) }, "may be written by others than root"},
	{"may be written by everybody", func(w *world, path string) { w.chmod(path, 0o606) }, "may be written by others than root"},
}

func stateCases() []hostile {
	return slices.Concat(configCases(), journalCases(), cacheCases(), lockCases(), releaseCases(), partialCases(), linkCases(), agentConfigCases())
}

// configCases are about updates.yaml.
func configCases() []hostile {
	text := func(name, says string, change func(text string) string) hostile {
		return hostile{name: "updates.yaml " + name, says: says, given: func(w *world) {
			sound := w.read(w.config())
			w.write(w.config(), change(sound), 0o600)
		}}
	}
	is := func(name, content, says string) hostile {
		return text(name, says, func(string) string { return content })
	}
	replaced := func(name, old, new, says string) hostile {
		return text(name, says, func(sound string) string {
			if !strings.Contains(sound, old) {
				panic(old)
			}
			return strings.Replace(sound, old, new, 1)
		})
	}
	const notAVersion = "is not a version; nothing was changed: repair the file"
	cases := []hostile{
		is("is empty", "", "the file is empty"),
		is("is white space", " \n\n", "the file is empty"),
		is("is noise", "\x00\x01\xff\xfe", "repair the file"),
		is("is JSON of another kind", `{"version":"v1"}`, "want version v1 and kind agent_versions"),
		is("is a list", "- version: v1\n", "repair the file"),
		is("is a word", "yes", "repair the file"),
		is("has a tabulator", "version: v1\n\tkind: agent_versions\n", "repair the file"),
		is("is UTF-16", "\xff\xfev\x00e\x00r\x00", "repair the file"),
		is("is a web page", "<!DOCTYPE html>", "repair the file"),
		is("is a bomb of aliases", aliasBomb(), "repair the file"),
		is("refers to itself", "version: &v [*v]\nkind: agent_versions\n", "repair the file"),
		is("is nested ten thousand deep", "version: "+strings.Repeat("[", 20000), "repair the file"),
		is("is of two megabytes", "# "+strings.Repeat("x", 2<<20), "is larger than 1048576 bytes"),
		text("has a field twice", "repair the file", func(s string) string { return s + "kind: agent_versions\n" }),
		text("has an unknown tag", "repair the file", func(s string) string {
			return strings.Replace(s, "enabled: true", "enabled: !!python/object:os.system true", 1)
		}),
		text("has a NUL", "repair the file", func(s string) string { return s + "x: \x00\n" }),
		replaced("is of a later version", "version: v1", "version: v9", "want version v1 and kind agent_versions"),
		replaced("is of another kind", "kind: agent_versions", "kind: db_backup", "want version v1 and kind agent_versions"),
		replaced("has a number for the flag", "enabled: true", "enabled: 7", "repair the file"),
		replaced("has a list for the proxy", "proxy: https", "proxy: [https]\n  x: https", "repair the file"),
		replaced("has a word for the templates", "url_templates:\n", "url_templates: none\n  unknown:\n", "repair the file"),
		replaced("has a negative window", "  ca_file:", "  health: {window: -30s}\n  ca_file:", "repair the file"),
		replaced("has a window that is none", "  ca_file:", "  health: {window: soon}\n  ca_file:", "repair the file"),
		replaced("has a window beyond every clock", "  ca_file:", "  health: {window: 99999999999h}\n  ca_file:", "repair the file"),
		replaced("has a time that is none", "status:", "status:\n  failed: {version: 1.1.0, next_attempt: soon}", "repair the file"),
		replaced("has an edition that is a path", "active_edition: oss", "active_edition: ../x", "status.active_edition"),
		replaced("has an unknown edition", "active_edition: oss", "active_edition: gold", "status.active_edition"),
		replaced("has a previous version that is a path", "status:", "status:\n  previous_version: ../../outside", "status.previous_version"),
		replaced("has a proxy with a path", "proxy: https", "proxy: https://proxy.example/x#", "must not contain a query or a fragment"),
		replaced("has a proxy with a password", "proxy: https://", "proxy: https://ann:planted-user@", "a user name or a password"),
		replaced("has a proxy of plain http", "proxy: https://127.0.0.1", "proxy: http://proxy.example", "plain http is for loopback addresses only"),
		replaced("has a proxy that is a file", "proxy: https://127.0.0.1", "proxy: file:///etc", ""),
	}
	for name, v := range map[string]string{
		"a path that leads up":         "../../outside",
		"a path to a program":          "../../../outside/evil",
		"an absolute path":             "/tmp/evil",
		"a path inside the store":      "1.0.0/../1.0.0",
		"a path behind a version":      "1.0.0/../../../outside",
		"a version with a v":           "v1.0.0",
		"a version with an edition":    "1.0.0_oss",
		"a hidden folder":              ".staging-1.0.0",
		"the folder of downloads":      "partial",
		"the folder of originals":      "original",
		"a dot":                        ".",
		"a version with a new line":    `"1.0.0\n"`,
		"a version with a NUL":         `"1.0.0\0"`,
		"a list":                       "[1.0.0]",
		"a number":                     "1.0",
		"a version of a kilobyte":      "1.0." + strings.Repeat("9", 1000),
		"a version with an escape":     `"1.0.0\u001b[2J"`,
		"a version with other letters": "1.0.0-ü",
	} {
		says := notAVersion
		if name == "a list" {
			says = "repair the file"
		}
		cases = append(cases, replaced("names as active version "+name, "active_version: 1.0.0", "active_version: "+v, says))
	}
	for _, k := range wrong {
		cases = append(cases, hostile{name: "updates.yaml " + k.name, says: map[string]string{
			"is a link to somebody else's file": "is a symbolic link, not a file of ours",
			"is a link to nothing":              "is a symbolic link, not a file of ours",
			"is a pipe":                         "is not a regular file",
			"is a device without end":           "is not a regular file",
			"is a folder":                       "is not a regular file",
		}[k.name], given: func(w *world) { k.make(w, w.config()) }})
	}
	for _, k := range foreign {
		cases = append(cases, hostile{name: "updates.yaml " + k.name, says: k.says, given: func(w *world) { k.make(w, w.config()) }})
	}
	cases = append(cases, hostile{name: "updates.yaml takes a terabyte of nothing", says: "is larger than", given: func(w *world) { w.sparse(w.config(), 1<<40, 0o600) }})
	// Every command that reads it says the same.
	for _, command := range [][]string{{"disable"}, {"pin"}, {"unpin"}, {"rollback"}, {"verify"}, {"uninstall"}, {"enable"}} {
		for name, what := range map[string]struct{ text, says string }{
			"noise": {"\x00\x01", "repair the file"}, "a zero": {"\x00", "the file is empty"},
		} {
			c := hostile{name: "updates.yaml is " + name + ", for " + command[0], run: command, says: what.says,
				given: func(w *world) { w.write(w.config(), what.text, 0o600) }}
			if command[0] == "verify" { // which says it on stdout, among the rest
				c.says = "1 of …checks failed"
				c.check = func(w *world, r result) {
					if !regexp.MustCompile(`(?m)^BAD  records: .*`+what.says).MatchString(r.stdout) || !strings.Contains(r.stdout, "version 1.0.0: whole") {
						w.t.Errorf("it prints\n%s", r.stdout)
					}
				}
			}
			cases = append(cases, c)
		}
	}
	// What is left of a file that was cut is either no configuration or one that
	// says less; nothing is guessed.
	for at := 16; at <= 150; at += 16 {
		cases = append(cases, hostile{name: fmt.Sprintf("updates.yaml ends after %d bytes", at), code: either, given: func(w *world) { w.cut(w.config(), at) }, may: []string{"data/versions/1.1.0", "data/versions/1.0.0/backup", "data/versions/original", "bin", "units"},
			check: func(w *world, _ result) { w.oneVersion() }})
	}
	return cases
}

func aliasBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	return b.String() + "version: v1\nkind: agent_versions\n"
}

// journal is one that this program could have written.
const journalText = `{
  "schema": 1, "id": "x", "phase": "switched", "started": "2024-05-06T12:00:00Z", "boot_id": "none",
  "from": {"version": "1.0.0", "edition": "oss", "sha256": "", "dir": "$WORLD/data/versions/1.0.0"},
  "to": {"version": "1.1.0", "edition": "oss", "sha256": "", "dir": "$WORLD/data/versions/1.1.0"},
  "links": null, "unit": {"path": "$WORLD/units/teleport.service"}, "agent": {"state": "unknown"},
  "database": {"plan": "keep", "path": "$WORLD/data/proc/sqlite.db"}, "commit": {}
}
`

// journalCases are about journal.json: what cannot be read is kept aside, nothing
// is changed on its word, and a person is told.
func journalCases() []hostile {
	is := func(name, content, says string) hostile {
		return hostile{name: "the journal " + name, code: person, says: says, given: func(w *world) {
			w.write(w.store("journal.json"), strings.ReplaceAll(content, "$WORLD", w.dir), 0o600)
		}}
	}
	const unreadable = "cannot be read…it is kept aside as …see that the agent works"
	cases := []hostile{
		is("is empty", "", unreadable),
		is("is noise", "\x00\x01\xff", unreadable),
		is("is null", "null", "names an unknown phase"),
		is("is a list", "[]", unreadable),
		is("is a number", "1", unreadable),
		is("is YAML", "schema: 1\n", unreadable),
		is("is of a newer schema", strings.Replace(journalText, `"schema": 1`, fmt.Sprintf(`"schema": %d`, state.Schema+1), 1),
			fmt.Sprintf("was written by a newer updater (schema %d, this one knows %d)", state.Schema+1, state.Schema)),
		is("is of a schema beyond every integer", strings.Replace(journalText, `"schema": 1`, `"schema": 99999999999999999999`, 1), unreadable),
		is("is of a schema that is a word", strings.Replace(journalText, `"schema": 1`, `"schema": "1"`, 1), unreadable),
		is("names an unknown phase", strings.Replace(journalText, `"switched"`, `"done"`, 1), `names an unknown phase "done"`),
		is("has a word for its links", strings.Replace(journalText, `"links": null`, `"links": "none"`, 1), unreadable),
		is("has a number for its target", strings.Replace(journalText, `"to": {`, `"to": 7, "x": {`, 1), unreadable),
		is("has a time that is none", strings.Replace(journalText, "2024-05-06T12:00:00Z", "soon", 1), unreadable),
		is("is nested a hundred thousand deep", `{"schema":1,"links":`+strings.Repeat("[", 100000), unreadable),
		is("is of nine megabytes", strings.Repeat(" ", 9<<20), "is larger than 8388608 bytes"),
		is("proves a version that is not there", strings.Replace(journalText, `"switched"`, `"proven"`, 1), "is proven but no longer on disk"),
		is("proves a version that is a path", strings.NewReplacer(`"switched"`, `"proven"`, `"version": "1.1.0"`, `"version": "../../outside"`).Replace(journalText), ""),
	}
	for at := 64; at < len(journalText)-64; at += 128 {
		cases = append(cases, is(fmt.Sprintf("ends after %d bytes", at), journalText[:at], unreadable))
	}
	for _, k := range wrong {
		cases = append(cases, hostile{name: "the journal " + k.name, code: person, says: "read the journal: …it is kept aside as ", given: func(w *world) { k.make(w, w.store("journal.json")) }})
	}
	for _, k := range foreign {
		cases = append(cases, hostile{name: "the journal " + k.name, code: person, says: k.says, given: func(w *world) {
			w.write(w.store("journal.json"), strings.ReplaceAll(journalText, "$WORLD", w.dir), 0o600)
			k.make(w, w.store("journal.json"))
		}})
	}
	for _, command := range [][]string{{"enable"}, {"disable"}, {"pin", "1.1.0"}, {"rollback"}, {"recover"}, {"recover", "--boot"}} {
		cases = append(cases, hostile{name: "the journal is noise, for " + strings.Join(command, " "), code: person, run: command, says: unreadable,
			given: func(w *world) { w.write(w.store("journal.json"), "\x00", 0o600) }})
	}
	// A field that another updater added is no reason to leave a host in the middle: what is
	// known of the journal is acted on, and the update goes on.
	more := is("has an unknown field", strings.Replace(journalText, `"commit"`, `"command": "reboot", "commit"`, 1), "the transaction was undone")
	more.code, more.becomes = done, "1.1.0"
	cases = append(cases, more)
	for i := range cases {
		cases[i].may = []string{"data/versions/journal.json", "data/versions/journal.json.unreadable-*"}
	}
	return cases
}

// idle is a case in which there is nothing to do, in spite of what is given.
func idle(name string, given func(*world)) hostile {
	return hostile{name: name, code: done, says: "version 1.0.0 is active and wanted", given: given, serves: func(w *world) { w.answer = answerFor("1.0.0") }}
}

// cacheCases are about find.json, which nothing depends on.
func cacheCases() []hostile {
	var cases []hostile
	contents := map[string]string{
		"is empty": "", "is noise": "\x00\xff", "is a list": "[]", "is of two megabytes": strings.Repeat(" ", 2<<20),
		"says a version that is a path": `{"version":"../../x","edition":"oss","proxy":"$PROXY"}`,
		"says escape sequences":         `{"version":"\u001b[2J","edition":"oss","proxy":"$PROXY"}`,
		"says a time that is none":      `{"version":"1.0.0","time":"soon","proxy":"$PROXY"}`,
	}
	for name, content := range contents {
		cases = append(cases, idle("find.json "+name, func(w *world) {
			w.write(w.store("find.json"), strings.ReplaceAll(content, "$PROXY", w.proxy), 0o600)
		}))
	}
	for _, k := range wrong {
		// What is no file of ours may give way, but is never followed.
		c := idle("find.json "+k.name, func(w *world) { k.make(w, w.store("find.json")) })
		c.may = []string{"data/versions/find.json"}
		cases = append(cases, c)
		c = idle("find.json's other name "+k.name, func(w *world) { k.make(w, w.store("find.json.new")) })
		c.may = []string{"data/versions/find.json.new"}
		cases = append(cases, c)
	}
	for _, k := range foreign {
		cases = append(cases, idle("find.json "+k.name, func(w *world) {
			w.write(w.store("find.json"), `{"version":"6.6.6","edition":"oss"}`, 0o600)
			k.make(w, w.store("find.json"))
		}))
	}
	return cases
}

// lockCases are about the lock files: they are written to, so they must not be
// something else.
func lockCases() []hostile {
	var cases []hostile
	for _, lock := range []string{"update.lock", "fetch.lock"} {
		for _, k := range wrong {
			cases = append(cases, hostile{name: lock + " " + k.name, says: "lock …; nothing was changed", may: []string{"data/versions/" + lock}, given: func(w *world) { k.make(w, w.store(lock)) }})
		}
	}
	return cases
}
