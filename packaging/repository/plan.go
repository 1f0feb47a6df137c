package repository

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// A change is one step of a publication. It is durable before the next one begins, and
// leaves a whole repository.
type change struct {
	verb verb
	path string // of a file in the repository, or of a folder to exchange
	data []byte // to write
	from string // the file to write instead, if it is not empty
	// files are added to the folder, or replace files in it.
	files map[string][]byte
}

type verb string

const (
	write    verb = "write"    // a file, in one step
	mark     verb = "mark"     // set a file's time to now: its grace begins
	exchange verb = "exchange" // a folder, in one step
	remove   verb = "remove"
)

// plan orders the changes that lead from a folder to its new content.
//
// Packages and indexes under names that never change come first; nobody asks for them
// yet. The files that clients read first come last, in one step: InRelease for apt and,
// for dnf, which reads two files, their folder. Between them are files with names that
// change, for tools that know no others. A file that is no longer named begins its time
// of grace before its name leaves the indexes: if a run is cut off there, the next one
// marks it again.
func plan(now tree, before *published, next *content, date time.Time, grace time.Duration) (all []change) {
	put := func(name string, data []byte) { all = append(all, change{verb: write, path: name, data: data}) }

	for _, name := range slices.Sorted(maps.Keys(next.plain)) {
		put(name, next.plain[name])
	}
	for _, p := range next.packages {
		if p.isNew {
			all = append(all, change{verb: write, path: p.path, from: p.file})
		}
	}
	for _, i := range next.indexes {
		put(i.byHash(), i.data)
	}
	for _, name := range now.files() {
		if before.names(name) && !next.names(name) {
			all = append(all, change{verb: mark, path: name})
		}
	}
	for _, i := range next.indexes {
		put(path.Join(aptSuite, i.name), i.data)
	}
	put(aptSuite+"/Release.gpg", next.releaseGPG)
	put(aptSuite+"/Release", next.release)
	put(aptSuite+"/InRelease", next.inRelease)
	for _, arch := range architectures {
		all = append(all, change{verb: exchange, path: path.Join(yumFolder, arch.rpm, repodata), files: next.yum[arch.rpm]})
	}
	for _, name := range now.files() {
		if perishable(name) && !before.names(name) && !next.names(name) && now[name].Before(date.Add(-grace)) {
			all = append(all, change{verb: remove, path: name})
		}
	}
	return all
}

// perishable reports whether a file of this kind is removed when no index names it.
func perishable(name string) bool {
	dir := path.Dir(name)
	return isPackage(name) || strings.HasSuffix(dir, "/by-hash/SHA256") || path.Base(dir) == repodata && strings.HasSuffix(name, ".xml.gz")
}

func isPackage(name string) bool {
	return path.Dir(name) == aptPool && path.Ext(name) == ".deb" || path.Dir(path.Dir(name)) == yumFolder && path.Ext(name) == ".rpm"
}

// tree maps the files of a folder to their times of modification.
type tree map[string]time.Time

func (t tree) files() []string { return slices.Sorted(maps.Keys(t)) }

func (t tree) packages() []string {
	return slices.DeleteFunc(t.files(), func(name string) bool { return !isPackage(name) })
}
