//go:build hosts

package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

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
		{name: "a file of a terabyte is where the first unit goes", bare: true, run: fresh, says: "too many for a unit: move it away", given: func(w *world) {
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
		is("has a proxy with a path", "teleport: {proxy_server: proxy.example/x}", "must not contain a path"),
		is("has a proxy with a password", "teleport: {proxy_server: 'https://ann:planted-user@proxy.example'}", "a user name or a password"),
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
