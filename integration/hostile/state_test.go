//go:build hosts

package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		is("is empty", "", "want version v1 and kind agent_versions"),
		is("is white space", " \n\n", "want version v1 and kind agent_versions"),
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
		replaced("has a proxy with a path", "proxy: https", "proxy: https://proxy.example/x#", "has no place in it"),
		replaced("has a proxy with a password", "proxy: https://", "proxy: https://ann:planted-user@", "password has no place"),
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
		cases = append(cases, hostile{name: "updates.yaml is noise, for " + command[0], run: command, says: "repair the file", given: func(w *world) { w.write(w.config(), "\x00", 0o600) }})
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
		is("is of a newer schema", strings.Replace(journalText, `"schema": 1`, `"schema": 2`, 1), "was written by a newer updater (schema 2, this one knows 1)"),
		is("is of a schema beyond every integer", strings.Replace(journalText, `"schema": 1`, `"schema": 99999999999999999999`, 1), unreadable),
		is("is of a schema that is a word", strings.Replace(journalText, `"schema": 1`, `"schema": "1"`, 1), unreadable),
		is("names an unknown phase", strings.Replace(journalText, `"switched"`, `"done"`, 1), `names an unknown phase "done"`),
		is("has an unknown field", strings.Replace(journalText, `"commit"`, `"command": "reboot", "commit"`, 1), unreadable),
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
	for _, command := range [][]string{{"enable"}, {"disable"}, {"pin", "1.1.0"}, {"rollback"}, {"uninstall"}, {"recover"}, {"recover", "--boot"}} {
		cases = append(cases, hostile{name: "the journal is noise, for " + strings.Join(command, " "), code: person, run: command, says: unreadable,
			given: func(w *world) { w.write(w.store("journal.json"), "\x00", 0o600) }})
	}
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

// releaseCases are about the files that make a folder a release. What is amiss
// with the active one is fetched again.
func releaseCases() []hostile {
	repaired := func(name string, given func(*world)) hostile {
		return hostile{name: name, code: done, becomes: "1.0.0", given: given, serves: func(w *world) {
			w.answer = answerFor("1.0.0")
			w.tarball = sound("1.0.0")
		}}
	}
	var cases []hostile
	for _, file := range []string{"edition", "sha256", "manifest"} {
		contents := map[string]string{
			"is empty":            "",
			"is noise":            "\x00\xff\n",
			"is of a megabyte":    strings.Repeat("x", 1<<20),
			"is a path":           "../../../../outside/secret\n",
			"has one line twice":  "oss\noss\n",
			"is a digest's start": strings.Repeat("0", 63),
		}
		for name, content := range contents {
			cases = append(cases, repaired(file+" of the active version "+name, func(w *world) { w.write(w.active(file), content, 0o644) }))
		}
		for _, k := range wrong {
			cases = append(cases, repaired(file+" of the active version "+k.name, func(w *world) { k.make(w, w.active(file)) }))
		}
	}
	digest := strings.Repeat("0", 64)
	for name, line := range map[string]string{
		"lists what lies outside":   digest + "  ../../../../outside/secret\n",
		"lists an absolute path":    digest + "  /etc/shadow\n",
		"lists a file twice":        digest + "  bin/teleport\n" + digest + "  bin/teleport\n",
		"lists no agent":            digest + "  bin/tsh\n",
		"is of two megabytes":       strings.Repeat("#", 2<<20+1),
		"has a line of a megabyte":  strings.Repeat("0", 1<<20),
		"uses another way of lines": digest + " *bin/teleport\r\n",
	} {
		cases = append(cases, repaired("the manifest "+name, func(w *world) { w.write(w.active("manifest"), line, 0o644) }))
	}
	for _, k := range wrong {
		cases = append(cases, repaired("a program of the active version "+k.name, func(w *world) { k.make(w, w.active("bin", "tsh")) }))
	}
	cases = append(cases,
		repaired("a program of the active version is gone", func(w *world) { w.must(os.Remove(w.active("bin", "tsh"))) }),
		repaired("a program of the active version is empty", func(w *world) { w.cut(w.active("bin", "tsh"), 0) }),
		repaired("the active version is gone", func(w *world) { w.must(os.RemoveAll(w.active())) }),
		repaired("the folder of programs is a link", func(w *world) {
			w.must(os.Rename(w.active("bin"), w.outside("bin")))
			w.link(w.outside("bin"), w.active("bin"))
		}),
		hostile{name: "the active version is damaged and no mirror has it", says: "404 Not Found", given: func(w *world) { w.cut(w.active("manifest"), 10) }, serves: func(w *world) {
			w.answer, w.files = answerFor("1.0.0"), notFound
		}},
	)
	return cases
}

// partialCases are about the folder of downloads, whose leftovers are removed.
func partialCases() []hostile {
	updated := func(name string, given func(*world)) hostile {
		return hostile{name: name, code: done, becomes: "1.1.0", given: given}
	}
	part := func(w *world, suffix string) string { return w.store("partial", digestOf(w.tarball)+suffix) }
	cases := []hostile{
		{name: "partial/ is a link to somebody else's folder", says: "leads elsewhere: remove it", given: func(w *world) { w.link(w.outside(), w.store("partial")) }},
		{name: "partial/ is a file", says: "", given: func(w *world) { w.write(w.store("partial"), "x", 0o600) }},
		{name: "partial/ is a pipe", says: "", given: func(w *world) { w.fifo(w.store("partial")) }},
		updated("partial/ holds links out of it", func(w *world) {
			w.folder(w.store("partial"))
			w.link(w.outside(), w.store("partial", "out"))
			w.link(w.outside("secret"), w.store("partial", ".staging-1.1.0-1"))
		}),
		updated("partial/ holds what was left by a crash", func(w *world) {
			w.write(w.store("partial", ".staging-1.1.0-1", "bin", "teleport"), "x", 0o755)
			w.write(w.store("partial", strings.Repeat("0", 64)+".part"), "x", 0o600)
		}),
		updated("a kept download is noise", func(w *world) { w.write(part(w, ".part"), "noise", 0o600) }),
		updated("a kept download is larger than the tarball", func(w *world) { w.write(part(w, ".part"), string(w.tarball)+"more", 0o600) }),
		updated("a kept download is the wrong half", func(w *world) {
			w.write(part(w, ".part"), string(w.tarball[len(w.tarball)/2:]), 0o600)
			w.write(part(w, ".json"), fmt.Sprintf(`{"total":%d,"source":"x"}`, len(w.tarball)), 0o600)
		}),
		updated("a kept download says a negative size", func(w *world) {
			w.write(part(w, ".part"), string(w.tarball[:100]), 0o600)
			w.write(part(w, ".json"), `{"total":-5,"source":"x"}`, 0o600)
		}),
		updated("a kept download belongs to another user", func(w *world) {
			w.write(part(w, ".part"), string(w.tarball[:100]), 0o666)
			w.chown(part(w, ".part"), 1234)
		}),
	}
	for _, k := range wrong {
		cases = append(cases,
			updated("a kept download "+k.name, func(w *world) { w.folder(w.store("partial")); k.make(w, part(w, ".part")) }),
			updated("the note of a kept download "+k.name, func(w *world) {
				w.write(part(w, ".part"), string(w.tarball[:100]), 0o600)
				k.make(w, part(w, ".json"))
			}))
	}
	return cases
}

// linkCases are about what stands where links and units go.
func linkCases() []hostile {
	inTheWay := func(name, says string, given func(*world)) hostile {
		return hostile{name: name, says: says, given: given}
	}
	teleport := func(w *world) string { return filepath.Join(w.links(), "teleport") }
	unit := func(w *world) string { return filepath.Join(w.units(), "teleport.service") }
	fresh := []string{"enable", "--proxy", "$PROXY", "--template", "$TEMPLATE", "--ca-file", "$CA"}
	return []hostile{
		inTheWay("a folder is where a link goes", "is a folder, and a link must go there: move it away", func(w *world) { w.folder(teleport(w)) }),
		inTheWay("a pipe is where a link goes", "is neither a file nor a link", func(w *world) { w.fifo(teleport(w)) }),
		inTheWay("a device is where a link goes", "is neither a file nor a link", func(w *world) { w.zero(teleport(w)) }),
		inTheWay("a folder is where the unit goes", "teleport.service", func(w *world) { w.folder(unit(w)) }),
		inTheWay("a pipe is where the unit goes", "teleport.service", func(w *world) { w.fifo(unit(w)) }),
		inTheWay("a device without end is where the unit goes", "teleport.service", func(w *world) { w.zero(unit(w)) }),
		{name: "a file of a terabyte is where the unit goes", code: done, becomes: "1.1.0", given: func(w *world) { w.sparse(unit(w), 1<<40, 0o644) }},
		{name: "a file of a terabyte is where the first unit goes", bare: true, run: fresh, says: "so it is no unit: move it away", given: func(w *world) {
			w.must(os.MkdirAll(w.units(), 0o755))
			w.sparse(unit(w), 1<<40, 0o644)
		}},
		inTheWay("the folder of links is a file", "bin", func(w *world) { w.write(w.links(), "x", 0o644) }),
		inTheWay("the folder of units is a file", "units", func(w *world) { w.write(w.units(), "x", 0o644) }),
		{name: "a link of ours leads to somebody else's program", code: done, becomes: "1.0.0", given: func(w *world) { w.link(w.outside("program"), teleport(w)) }, serves: func(w *world) { w.answer = answerFor("1.0.0") }},
		{name: "the unit leads to somebody else's program", code: done, becomes: "1.0.0", given: func(w *world) {
			w.write(unit(w), strings.ReplaceAll(unitText, "/usr/local/bin/teleport", w.outside("program")), 0o644)
		}, serves: func(w *world) { w.answer = answerFor("1.0.0") }},
		{name: "the unit is a link to somebody else's file", code: done, becomes: "1.0.0", given: func(w *world) { w.link(w.outside("secret"), unit(w)) }, serves: func(w *world) { w.answer = answerFor("1.0.0") }},
		{name: "the unit is a link to a device without end", code: done, becomes: "1.0.0", given: func(w *world) { w.link("/dev/zero", unit(w)) }, serves: func(w *world) { w.answer = answerFor("1.0.0") }},
		{name: "links lead in a circle", code: done, becomes: "1.0.0", given: func(w *world) {
			w.link(filepath.Join(w.links(), "tsh"), teleport(w))
			w.link(teleport(w), filepath.Join(w.links(), "tsh"))
		}, serves: func(w *world) { w.answer = answerFor("1.0.0") }},
		{name: "a folder is where the first link goes", bare: true, run: fresh, says: "is a folder, and a link must go there", given: func(w *world) { w.must(os.MkdirAll(teleport(w), 0o755)) }},
		{name: "the updater's own unit is somebody else's", bare: true, run: fresh, says: "is not teleport-update's own unit", given: func(w *world) {
			w.write(filepath.Join(w.units(), "teleport-update.service"), "[Service]\nExecStart=/bin/true\n", 0o644)
		}},
		{name: "the updater's own unit is a pipe", bare: true, run: fresh, says: "", given: func(w *world) {
			w.must(os.MkdirAll(w.units(), 0o755))
			w.fifo(filepath.Join(w.units(), "teleport-update.service"))
		}},
		{name: "the updater's own copy is a pipe", code: done, becomes: "1.1.0", given: func(w *world) { w.fifo(w.data("updater", "teleport-update")) }},
		{name: "the updater's own copy is a link to somebody else's program", code: done, becomes: "1.1.0", given: func(w *world) { w.link(w.outside("program"), w.data("updater", "teleport-update")) }},
		{name: "the folder of the updater's own copy is another user's", says: "updater belongs to another user", given: func(w *world) { w.chown(w.data("updater"), 1234) }, may: []string{"data/versions/1.1.0"}},
	}
}

// agentConfigCases are about the agent's own configuration, which is asked where
// nobody named a proxy.
func agentConfigCases() []hostile {
	fresh := []string{"enable", "--template", "$TEMPLATE", "--ca-file", "$CA"}
	is := func(name, content, says string) hostile {
		return hostile{name: "teleport.yaml " + name, bare: true, run: fresh, says: says, given: func(w *world) {
			w.write(w.agentConfig(), strings.ReplaceAll(content, "$PROXY", w.proxy), 0o644)
		}}
	}
	const cannot = "read the agent's configuration"
	cases := []hostile{
		is("is empty", "", "no proxy address is known"),
		is("is noise", "\x00\xff", cannot),
		is("is a bomb of aliases", aliasBomb(), "no proxy address is known"),
		is("is nested ten thousand deep", "a: "+strings.Repeat("[", 20000), cannot),
		is("is of two megabytes", "# "+strings.Repeat("x", 2<<20), "is larger than 1048576 bytes"),
		is("has a list for the proxy", "teleport: {proxy_server: [a]}", "is not what belongs there"),
		is("has a proxy with a path", "teleport: {proxy_server: proxy.example/x}", "a path has no place"),
		is("has a proxy with a password", "teleport: {proxy_server: 'https://ann:planted-user@proxy.example'}", "password has no place"),
		is("has a proxy of plain http", "teleport: {proxy_server: 'http://proxy.example'}", "plain http is for loopback addresses only"),
		is("has a proxy that is a flag", "teleport: {proxy_server: '--help'}", ""),
	}
	for _, k := range wrong {
		if k.name == "is a link to nothing" {
			continue
		}
		cases = append(cases, hostile{name: "teleport.yaml " + k.name, bare: true, run: fresh, says: "teleport.yaml", given: func(w *world) { k.make(w, w.agentConfig()) }})
	}
	for _, k := range foreign {
		cases = append(cases, hostile{name: "teleport.yaml " + k.name + " and names a proxy", bare: true, run: fresh, says: "--proxy", given: func(w *world) {
			w.write(w.agentConfig(), "teleport: {proxy_server: '"+w.proxy+"'}\n", 0o644)
			k.make(w, w.agentConfig())
			if strings.Contains(k.name, "group") { // root's own group is root
				w.must(os.Chown(w.agentConfig(), 0, 1234))
			}
		}})
	}
	return cases
}
