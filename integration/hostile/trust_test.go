//go:build hosts

package hostile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Somebody who can write where the updater reads must not have it run, link or
// install anything of theirs: only root's files in folders that are root's alone
// are executed.

// evil is a version's folder whose every program leaves a mark when it is run.
func (w *world) evil(version string) {
	w.t.Helper()
	mark := "#!/bin/sh\ntouch " + w.outside("executed") + "\nexec echo 'Teleport v" + version + " git:'\n"
	unit := strings.ReplaceAll(unitText, "/usr/local/bin/teleport", w.outside("program"))
	var manifest strings.Builder
	for _, f := range []struct {
		name, text string
		mode       fs.FileMode
	}{{"bin/sudo", mark, 0o755}, {"bin/teleport", mark, 0o755}, {"bin/tsh", mark, 0o755}, {"edition", "oss\n", 0o644}, {"etc/systemd/teleport.service", unit, 0o644}} {
		w.write(w.store(version, f.name), f.text, f.mode)
		fmt.Fprintf(&manifest, "%x  %s\n", sha256.Sum256([]byte(f.text)), f.name)
	}
	w.write(w.store(version, "manifest"), manifest.String(), 0o644)
	w.write(w.store(version, "sha256"), strings.Repeat("0", 64)+"\n", 0o644)
}

// owned gives a tree to another user.
func (w *world) owned(path string) {
	w.t.Helper()
	w.must(filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 1234, 1234))
	}))
}

// notExecuted asserts that nobody's program ran, was linked or is in a unit.
func notExecuted(w *world, _ result) {
	w.t.Helper()
	if _, err := os.Lstat(w.outside("executed")); !errors.Is(err, fs.ErrNotExist) {
		w.t.Error("somebody else's program was executed")
	}
	if _, err := os.Lstat(filepath.Join(w.links(), "sudo")); !errors.Is(err, fs.ErrNotExist) {
		w.t.Error("somebody else's program was linked")
	}
	if data, err := os.ReadFile(filepath.Join(w.units(), "teleport.service")); err == nil && strings.Contains(string(data), w.outside()) {
		w.t.Error("somebody else's unit was installed")
	}
}

func trustCases() []hostile {
	var cases []hostile
	// A folder of the active version that somebody else could have changed.
	ways := []struct {
		name string
		make func(w *world)
	}{
		{"belongs to another user", func(w *world) { w.owned(w.active()) }},
		{"is another user's at the top", func(w *world) { w.chown(w.active(), 1234) }},
		{"may be written by a group", func(w *world) { w.must(os.Chown(w.active(), 0, 1234)); w.chmod(w.active(), 0o775) }},
		{"may be written by everybody", func(w *world) { w.chmod(w.active(), 0o777) }},
		{"has a folder of programs of another user's", func(w *world) { w.chown(w.active("bin"), 1234) }},
		{"has a folder of programs that everybody may write", func(w *world) { w.chmod(w.active("bin"), 0o777) }},
		{"has a folder of units of another user's", func(w *world) { w.chown(w.active("etc", "systemd"), 1234) }},
		{"has a folder of units that everybody may write", func(w *world) { w.chmod(w.active("etc"), 0o777) }},
		{"has an agent of another user's", func(w *world) { w.chown(w.active("bin", "teleport"), 1234) }},
		{"has an agent that everybody may write", func(w *world) { w.chmod(w.active("bin", "teleport"), 0o777) }},
		{"has an agent that is setuid", func(w *world) { w.chmod(w.active("bin", "teleport"), 0o755|fs.ModeSetuid) }},
		{"has a unit of another user's", func(w *world) { w.chown(w.active("etc", "systemd", "teleport.service"), 1234) }},
		{"has a manifest of another user's", func(w *world) { w.chown(w.active("manifest"), 1234) }},
		{"has a manifest that everybody may write", func(w *world) { w.chmod(w.active("manifest"), 0o666) }},
		{"has a program more than it came with", func(w *world) { w.write(w.active("bin", "sudo"), script("1.0.0"), 0o755) }},
	}
	for _, way := range ways {
		// With all that such a somebody would do.
		given := func(w *world) {
			way.make(w)
			w.must(os.Remove(filepath.Join(w.links(), "tsh"))) // so that links are looked at
			w.write(filepath.Join(w.units(), "teleport.service"), "", 0o644)
		}
		cases = append(cases,
			hostile{name: "the active version " + way.name + ", and is fetched again", code: done, becomes: "1.0.0", given: given, check: notExecuted,
				serves: func(w *world) { w.answer, w.tarball = answerFor("1.0.0"), sound("1.0.0") }},
			hostile{name: "the active version " + way.name + ", and no mirror has it", says: "404 Not Found", given: given, check: notExecuted,
				serves: func(w *world) { w.answer, w.files = answerFor("1.0.0"), notFound }})
	}

	// A folder above it: there is nothing that a fetch could put right.
	for _, above := range []struct {
		name string
		make func(w *world)
		says string
	}{
		{"the store belongs to another user", func(w *world) { w.chown(w.store(), 1234) }, "versions belongs to another user"},
		{"the store may be written by everybody", func(w *world) { w.chmod(w.store(), 0o777) }, "versions can be written by everybody"},
		{"the store may be written by a group", func(w *world) { w.must(os.Chown(w.store(), 0, 1234)); w.chmod(w.store(), 0o775) }, "versions can be written by its group"},
		{"the data folder belongs to another user", func(w *world) { w.chown(w.data(), 1234) }, "data belongs to another user"},
		{"the data folder may be written by everybody", func(w *world) { w.chmod(w.data(), 0o777) }, "data can be written by everybody"},
		{"the data folder is another user's link", func(w *world) {
			w.must(os.Rename(w.data(), w.outside("data")))
			w.link(w.outside("data"), w.data())
			w.chown(w.data(), 1234)
		}, "data belongs to another user"},
		{"the store is a link into another user's folder", func(w *world) {
			w.must(os.Mkdir(w.outside("theirs"), 0o755))
			w.must(os.Rename(w.store(), w.outside("theirs", "versions")))
			w.link(w.outside("theirs", "versions"), w.store())
			w.chown(w.outside("theirs"), 1234)
		}, "theirs belongs to another user"},
	} {
		for _, command := range [][]string{{"update"}, {"update", "--now"}, {"enable"}, {"disable"}, {"pin", "1.1.0"}, {"rollback", "1.1.0"}} {
			cases = append(cases, hostile{name: above.name + ", for " + strings.Join(command, " "), run: command, says: above.says + "… nothing was changed", given: above.make, check: notExecuted})
		}
	}
	cases = append(cases, hostile{name: "the store is another user's before the first enable", bare: true, says: "versions belongs to another user",
		run: []string{"enable", "--proxy", "$PROXY", "--template", "$TEMPLATE", "--ca-file", "$CA"},
		given: func(w *world) {
			w.must(os.Mkdir(w.store(), 0o755))
			w.link(w.outside("secret"), w.store("update.lock"))
			w.link(w.outside("secret"), w.store("fetch.lock"))
			w.link(w.outside("secret"), w.store("find.json.new"))
			w.link(w.outside(), w.store("partial"))
			w.owned(w.store())
		}, check: notExecuted, may: []string{"data/versions"}})

	// A version that somebody laid there, whole as far as its marks go.
	for _, command := range [][]string{{"update"}, {"update", "--now"}, {"pin", "6.6.6"}, {"rollback", "6.6.6"}, {"rollback", "6.6.6", "--force"}} {
		cases = append(cases, hostile{name: "a version of another user's lies there, for " + strings.Join(command, " "), run: command, says: "6.6.6",
			given: func(w *world) { w.evil("6.6.6"); w.owned(w.store("6.6.6")) }, check: notExecuted,
			serves: func(w *world) { w.answer, w.files = answerFor("6.6.6"), notFound }, may: []string{"data/versions/6.6.6"}})
	}
	// And one that updates.yaml was made to name.
	for _, command := range [][]string{{"update"}, {"update", "--now"}, {"enable"}, {"verify"}} {
		says := "6.6.6"
		if command[0] == "verify" { // which tells them apart on stdout
			says = "checks failed"
		}
		cases = append(cases, hostile{name: "updates.yaml names a version of another user's, for " + strings.Join(command, " "), run: command, says: says,
			given: func(w *world) {
				w.evil("6.6.6")
				w.owned(w.store("6.6.6"))
				w.replace(w.config(), "active_version: 1.0.0", "active_version: 6.6.6")
			}, check: notExecuted, may: []string{"data/versions/6.6.6", "data/versions/updates.yaml"},
			serves: func(w *world) { w.answer, w.files = answerFor("6.6.6"), notFound }})
	}
	for _, way := range []struct {
		name string
		make func(w *world)
	}{
		{"a link to another user's folder", func(w *world) {
			w.must(os.Rename(w.store("6.6.6"), w.outside("6.6.6")))
			w.link(w.outside("6.6.6"), w.store("6.6.6"))
		}},
		{"a folder that everybody may write", func(w *world) { w.chmod(w.store("6.6.6"), 0o777) }},
		{"a folder whose programs everybody may exchange", func(w *world) { w.chmod(w.store("6.6.6", "bin"), 0o777) }},
		{"a folder whose agent everybody may write", func(w *world) { w.chmod(w.store("6.6.6", "bin", "teleport"), 0o757) }},
		{"a folder whose programs are a link", func(w *world) {
			w.must(os.Rename(w.store("6.6.6", "bin"), w.outside("theirs")))
			w.owned(w.outside("theirs"))
			w.link(w.outside("theirs"), w.store("6.6.6", "bin"))
		}},
	} {
		cases = append(cases, hostile{name: "find wants a version that is " + way.name, says: "6.6.6", given: func(w *world) { w.evil("6.6.6"); way.make(w) },
			check: notExecuted, serves: func(w *world) { w.answer, w.files = answerFor("6.6.6"), notFound }, may: []string{"data/versions/6.6.6"}})
	}

	// An agent that was here first is asked for its version at a first enable,
	// but only if root alone could have put it there.
	for _, way := range []struct {
		name string
		make func(w *world, path string)
	}{
		{"belongs to another user", func(w *world, path string) { w.chown(path, 1234) }},
		{"may be written by everybody", func(w *world, path string) { w.chmod(path, 0o777) }},
		{"is a link to another user's program", func(w *world, path string) {
			w.must(os.Rename(path, w.outside("theirs")))
			w.chown(w.outside("theirs"), 1234)
			w.link(w.outside("theirs"), path)
		}},
	} {
		cases = append(cases, hostile{name: "the agent that was here first " + way.name, bare: true, code: done, becomes: "1.1.0",
			run: []string{"enable", "--proxy", "$PROXY", "--template", "$TEMPLATE", "--ca-file", "$CA"},
			given: func(w *world) {
				path := filepath.Join(w.links(), "teleport")
				w.write(path, "#!/bin/sh\ntouch "+w.outside("executed")+"\necho Teleport v9.9.9\n", 0o755)
				way.make(w, path)
			}, check: notExecuted})
	}
	return slices.Clip(cases)
}
