//go:build hosts

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// A tarball's checksum always matches here: whoever makes the tarball makes the
// checksum.

// refusedTar is a case of a tarball that must be refused.
func refusedTar(name string, tarball []byte, says string) hostile {
	return hostile{name: name, says: says, serves: func(w *world) { w.tarball = tarball }}
}

// refusedEntry is one of an archive that is sound but for more entries.
func refusedEntry(name, says string, more ...entry) hostile {
	return refusedTar(name, with(more...), "release archive refused: …"+says)
}

// takenTar is a tarball that is odd and may be taken.
func takenTar(name string, tarball []byte, check func(*world, result)) hostile {
	return hostile{name: name, code: done, becomes: "1.1.0", serves: func(w *world) { w.tarball = tarball }, check: check}
}

func tarCases() []hostile {
	const unclean, damaged = "that is not clean and relative", "it is no tar archive, or it is damaged"
	long := strings.Repeat("n", 300)
	noise := func(n int) []byte {
		b := make([]byte, n)
		r := rand.NewChaCha8([32]byte{1})
		r.Read(b)
		return b
	}
	return []hostile{
		exchangedTar(), endlessTar(),
		// Both wait for the limit of a try run, half a minute.
		unending("the agent prints without end", "yes 'Teleport v1.1.'"), unending("the agent does not end", "while :; do sleep 9; done"),

		// Names that lead elsewhere.
		refusedEntry("a name leads out of the archive", `entry "teleport/../../../outside/secret" has a name `+unclean, file("teleport/../../../outside/secret", "x")),
		refusedEntry("a name begins with two dots", unclean, file("../outside/secret", "x")),
		refusedEntry("a name is two dots", unclean, dir("..")),
		refusedEntry("a name is absolute", unclean, file("/etc/hostile", "x")),
		refusedEntry("a folder's name is absolute", unclean, dir("/etc/hostile/")),
		refusedEntry("a name holds a single dot", unclean, file("teleport/./tbot", "x")),
		refusedEntry("a name begins with a dot", unclean, file("./teleport/tbot", "x")),
		refusedEntry("a name holds an empty part", unclean, file("teleport//tbot", "x")),
		refusedEntry("a name comes back into the archive", unclean, file("teleport/x/../tbot", "x")),
		refusedEntry("a name is empty", unclean, entry{mode: 0o644, data: "x"}),
		refusedEntry("a name is a single dot", unclean, dir(".")),
		refusedEntry("a name is a slash", unclean, dir("/")),
		refusedEntry("a long name of GNU leads out", unclean, entry{name: "teleport/x", mode: 0o755, gnuName: "teleport/../../../../outside/secret", data: "x"}),
		refusedEntry("a PAX path leads out", unclean, entry{name: "teleport/x", mode: 0o755, pax: map[string]string{"path": "../../outside/secret"}, data: "x"}),
		refusedEntry("a PAX path is absolute", unclean, entry{name: "teleport/x", mode: 0o755, pax: map[string]string{"path": "/etc/hostile"}, data: "x"}),
		refusedEntry("the prefix field leads out", unclean, entry{name: "secret", prefix: "../../outside", mode: 0o755, data: "x"}),
		refusedEntry("a name uses backslashes", "has a control character or a backslash in its name", file(`teleport/..\..\outside`, "x")),

		// Names that are not fit for a file system, a log or a terminal.
		refusedEntry("a name holds a new line", "has a control character", program("teleport/a\nb", "x")),
		refusedEntry("a name holds an escape sequence", "has a control character", program("teleport/\x1b[2Jb", "x")),
		refusedEntry("a name holds a tabulator", "has a control character", program("teleport/a\tb", "x")),
		refusedEntry("a name is no UTF-8", unclean, program("teleport/\xff\xfe", "x")),
		refusedEntry("a PAX path holds a NUL", damaged, entry{name: "teleport/x", mode: 0o755, pax: map[string]string{"path": "teleport/x\x00y"}, data: "x"}),
		takenTar("a name ends at its NUL", with(program("teleport/tbot\x00/../../x", "x")), nil),
		refusedEntry("a name of GNU is too long", "has a name of more than 256 bytes", entry{name: "teleport/x", mode: 0o755, gnuName: "teleport/" + long, data: "x"}),
		refusedEntry("a PAX path is too long", "has a name of more than 256 bytes", entry{name: "teleport/x", mode: 0o755, pax: map[string]string{"path": "teleport/" + long}, data: "x"}),
		refusedEntry("a name is two megabytes long", damaged, entry{name: "teleport/x", mode: 0o755, gnuName: strings.Repeat("n", 2<<20), data: "x"}),
		refusedEntry("PAX records are of two megabytes", damaged, entry{name: "teleport/x", mode: 0o755, pax: map[string]string{"comment": strings.Repeat("n", 2<<20)}, data: "x"}),
		refusedEntry("a file lies in too many folders", "lies more than 16 folders deep", file("teleport/"+strings.Repeat("d/", 20)+"f", "x")),

		// The top folder.
		refusedEntry("a file is in another top folder", "is not in a folder teleport or teleport-ent", program("evil/teleport", "x")),
		refusedEntry("a file is in no folder", "is not in a folder teleport or teleport-ent", program("tbot", "x")),
		refusedEntry("there are two top folders", "it has two top folders, teleport and teleport-ent", program("teleport-ent/tbot", "x")),
		refusedTar("the top folder is a file", gz(archive(file("teleport", "x"))), `its top folder "teleport" is a file`),
		refusedTar("the top folder is a link", gz(archive(symlink("teleport", "/etc"), program("teleport/teleport", "x"))), "is neither a file nor a folder but a symbolic link"),
		refusedEntry("the top folder has another case", "is not in a folder teleport or teleport-ent", program("Teleport/tbot", "x")),

		// What is no file.
		refusedEntry("a link leads to an absolute path", "a symbolic link", symlink("teleport/tbot", "/etc/passwd")),
		refusedEntry("a link leads up", "a symbolic link", symlink("teleport/tbot", "../../../outside/secret")),
		refusedEntry("a link leads to its neighbour", "a symbolic link", symlink("teleport/tbot", "tsh")),
		refusedEntry("a link is followed by a file below it", "a symbolic link", symlink("teleport/l", "/etc"), file("teleport/l/hostile", "x")),
		refusedEntry("a link is followed by a file of its name", "a symbolic link", symlink("teleport/tbot", "/etc/hostile"), file("teleport/tbot", "x")),
		refusedEntry("a link has a long target", "a symbolic link", entry{name: "teleport/tbot", kind: '2', gnuLink: "/" + long}),
		refusedEntry("a hard link leads outside", "a hard link", hardlink("teleport/tbot", "/etc/shadow")),
		refusedEntry("a hard link leads to its neighbour", "a hard link", hardlink("teleport/tbot", "teleport/tsh")),
		refusedEntry("a hard link leads up", "a hard link", hardlink("teleport/tbot", "../../../../outside/secret")),
		refusedEntry("a hard link carries data", "a hard link", entry{name: "teleport/tbot", kind: '1', link: "teleport/tsh", data: "x"}),
		refusedEntry("an entry is a character device", "a device", entry{name: "teleport/zero", kind: '3', mode: 0o666}),
		refusedEntry("an entry is a block device", "a device", entry{name: "teleport/disk", kind: '4', mode: 0o666}),
		refusedEntry("an entry is a named pipe", "a named pipe", entry{name: "teleport/pipe", kind: '6', mode: 0o666}),
		refusedEntry("an entry is of a type that nobody knows", `of type 'Z'`, entry{name: "teleport/z", kind: 'Z', data: "x"}),
		refusedEntry("an entry is a contiguous file", `of type '7'`, entry{name: "teleport/c", kind: '7', data: "x"}),
		refusedEntry("an entry is a dump of a folder", `of type 'D'`, entry{name: "teleport/d", kind: 'D', data: "x"}),
		refusedEntry("an entry goes on from another volume", `of type 'M'`, entry{name: "teleport/m", kind: 'M', data: "x"}),
		refusedEntry("an entry is a volume's label", `of type 'V'`, entry{name: "teleport/v", kind: 'V'}),
		refusedEntry("a header speaks for all entries", `of type 'g'`, entry{name: "g", kind: 'g', data: record("path", "teleport/tbot")}),
		refusedEntry("a sparse file is of GNU's old kind", "", entry{name: "teleport/s", kind: 'S', mode: 0o755, spoil: gnuMagic}),
		refusedEntry("a sparse file is of PAX 1.0", "is a sparse file", entry{name: "teleport/s", mode: 0o755, data: "1\n0\n1\n" + strings.Repeat("\x00", 506) + "x",
			pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "teleport/s", "GNU.sparse.realsize": "1099511627776"}}),
		refusedEntry("a sparse file is of PAX 0.1", "is a sparse file", entry{name: "teleport/s", mode: 0o755, data: "x",
			pax: map[string]string{"GNU.sparse.map": "0,1", "GNU.sparse.numblocks": "1", "GNU.sparse.size": "1099511627776"}}),
		refusedEntry("a sparse file's name leads out", "", entry{name: "teleport/s", mode: 0o755, data: "1\n0\n1\n" + strings.Repeat("\x00", 506) + "x",
			pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "../../outside/secret", "GNU.sparse.realsize": "1"}}),
		refusedEntry("a sparse map overlaps itself", "", entry{name: "teleport/s", mode: 0o755, data: "2\n0\n9\n4\n9\n" + strings.Repeat("\x00", 501) + "x",
			pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}}),

		// Names that come twice.
		refusedEntry("a file comes twice", `entry "teleport/tsh" comes twice`, program("teleport/tsh", "x")),
		refusedEntry("the agent comes twice", `entry "teleport/teleport" comes twice`, program("teleport/teleport", "x")),
		refusedEntry("a PAX path is a name that was there", "comes twice", entry{name: "teleport/other", mode: 0o755, data: "x", pax: map[string]string{"path": "teleport/tsh"}}),
		refusedEntry("a folder comes twice", "comes twice", dir("teleport/examples/")),
		refusedEntry("a file becomes a folder", "comes twice", dir("teleport/tsh/")),
		refusedEntry("a folder becomes a file", "comes twice", program("teleport/examples", "x")),
		refusedEntry("a file lies below a file", "lies below a file", program("teleport/tsh/x", "x")),
		refusedEntry("a folder that a name implied becomes a file", "comes twice", file("teleport/d/x", "x"), program("teleport/d", "x")),
		takenTar("a name differs by its case alone", with(program("teleport/TSH", script("1.1.0"))), func(w *world, _ result) {
			if w.read(w.store("1.1.0", "bin", "tsh")) != script("1.1.0") {
				w.t.Error("the other file is not what it was")
			}
		}),

		// Modes, owners and what else an archive wants to set.
		refusedEntry("a file is setuid", "has mode 04755: no setuid", entry{name: "teleport/tbot", mode: 0o4755, data: "x"}),
		refusedEntry("a file is setgid", "has mode 02755: no setuid", entry{name: "teleport/tbot", mode: 0o2755, data: "x"}),
		refusedEntry("a file is sticky", "has mode 01755: no setuid", entry{name: "teleport/tbot", mode: 0o1755, data: "x"}),
		refusedEntry("a file that is dropped is setuid", "has mode 04644: no setuid", entry{name: "teleport/LICENSE", mode: 0o4644, data: "x"}),
		refusedEntry("a mode is no number", damaged, entry{name: "teleport/tbot", rawMode: "rwxr-x\x00 ", data: "x"}),
		takenTar("a file may be written by everybody", with(entry{name: "teleport/tbot", mode: 0o777, data: "x"}), func(w *world, _ result) {
			if info, err := os.Stat(w.store("1.1.0", "bin", "tbot")); err != nil || info.Mode().Perm() != 0o755 {
				w.t.Errorf("mode %v, %v", info.Mode(), err)
			}
		}),
		takenTar("a folder is setgid and open to all", with(entry{name: "teleport/d/", kind: '5', mode: 0o2777}), nil),
		takenTar("a file belongs to another user", with(entry{name: "teleport/tbot", mode: 0o755, uid: "0001750\x00", data: "x"}), func(w *world, _ result) {
			if what := describe(w.store("1.1.0", "bin", "tbot")); !strings.Contains(what, " 0:0 ") {
				w.t.Errorf("it is %s", what)
			}
		}),
		takenTar("a file brings a capability", with(entry{name: "teleport/tbot", mode: 0o755, data: "x",
			pax: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "SCHILY.xattr.user.x": "y"}}),
			func(w *world, _ result) {
				if n, err := unix.Llistxattr(w.store("1.1.0", "bin", "tbot"), make([]byte, 1000)); n > 0 {
					w.t.Errorf("it has extended attributes (%d bytes, %v)", n, err)
				}
			}),
		takenTar("a file is of a time to come", with(entry{name: "teleport/tbot", mode: 0o755, data: "x", pax: map[string]string{"mtime": "253402300799.5"}}), nil),
		refusedEntry("a time is no number", damaged, entry{name: "teleport/tbot", mode: 0o755, data: "x", pax: map[string]string{"mtime": "soon"}}),

		// Sizes.
		refusedEntry("a size is negative", damaged, entry{name: "teleport/tbot", mode: 0o755, rawSize: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", data: "x"}),
		refusedEntry("a size is no number", damaged, entry{name: "teleport/tbot", mode: 0o755, rawSize: "large\x00", data: "x"}),
		refusedEntry("a size is beyond the limit of a file", "more than 2147483648", entry{name: "teleport/tbot", mode: 0o755, rawSize: "37777777777\x00", noData: true}),
		refusedEntry("a size is beyond every disk", "more than 2147483648", entry{name: "teleport/tbot", mode: 0o755, rawSize: "\x80\x00\x00\x00\x3f\xff\xff\xff\xff\xff\xff\xff", noData: true}),
		refusedEntry("a size promises more than there is", "it ends in the middle of an entry", entry{name: "teleport/tbot", mode: 0o755, rawSize: "00000100000\x00", data: "x"}),
		refusedEntry("a PAX size is negative", damaged, entry{name: "teleport/tbot", mode: 0o755, data: "x", pax: map[string]string{"size": "-1"}}),
		refusedEntry("a PAX size is no number", damaged, entry{name: "teleport/tbot", mode: 0o755, data: "x", pax: map[string]string{"size": "1e3"}}),
		refusedEntry("a PAX size is larger than the file", "it ends in the middle of an entry", entry{name: "teleport/tbot", mode: 0o755, data: "x", pax: map[string]string{"size": "900000"}}),
		refusedEntry("a PAX record says a wrong length", damaged, entry{name: "teleport/tbot", mode: 0o755, data: "x", paxRaw: "99 path=teleport/x\n"}),
		refusedEntry("a PAX record has no value", damaged, entry{name: "teleport/tbot", mode: 0o755, data: "x", paxRaw: "9 path\nxx\n"}),
		takenTar("a file that the host does not need is dropped", with(file("teleport/other", "x")), func(w *world, _ result) {
			if _, err := os.Lstat(w.store("1.1.0", "bin", "other")); !errors.Is(err, fs.ErrNotExist) {
				w.t.Errorf("it is there: %v", err)
			}
		}),

		// Bombs.
		refusedTar("it grows to a thousand times its size, as gzip", gz(archive(append(release("1.1.0"), file("teleport/zeros", strings.Repeat("\x00", 96<<20)))...)), "it grows to more than 50 times its size"),
		refusedTar("it grows to a thousand times its size, as zstd", zst(archive(append(release("1.1.0"), file("teleport/zeros", strings.Repeat("\x00", 96<<20)))...)), "it grows to more than 50 times its size"),
		refusedTar("a program grows to a thousand times its size", gz(archive(append(release("1.1.0"), program("teleport/zeros", strings.Repeat("\x00", 96<<20)))...)), "it grows to more than 50 times its size"),
		refusedTar("it has five thousand files", gz(archive(append(release("1.1.0"), many(5000, func(i int) entry { return file(fmt.Sprintf("teleport/d/%d", i), "") })...)...)), "it has more than 4096 entries"),
		refusedTar("it has five thousand folders", gz(archive(append(release("1.1.0"), many(5000, func(i int) entry { return dir(fmt.Sprintf("teleport/d%d/", i)) })...)...)), "it has more than 4096 entries"),
		refusedTar("it has five thousand programs", gz(archive(append(release("1.1.0"), many(5000, func(i int) entry { return program(fmt.Sprintf("teleport/p%d", i), "x") })...)...)), "it has more than 4096 entries"),
		refusedTar("it has a hundred thousand long names", gz(archive(append(release("1.1.0"), many(100000, func(i int) entry { return file(fmt.Sprintf("teleport/%d", i), "") })...)...)), "it has more than 4096 entries"),
		refusedTar("its gzip header is endless", append([]byte("\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff"), bytes.Repeat([]byte("n"), 1<<20)...), ""),
		refusedTar("its gzip is inside another gzip", gz(sound("1.1.0")), damaged),
		refusedTar("its zstd window is of half a gigabyte", append([]byte("\x28\xb5\x2f\xfd\x00\x98"), noise(4096)...), "its zstd window is larger than"),
		refusedTar("its zstd window is beyond every memory", append([]byte("\x28\xb5\x2f\xfd\x00\xff"), noise(4096)...), "its zstd window is larger than"),
		refusedTar("its zstd content claims to be of exabytes", append([]byte("\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x7f"), noise(4096)...), ""),
		refusedTar("it begins with frames to skip", bytes.Repeat([]byte("\x50\x2a\x4d\x18\x08\x00\x00\x00skipskip"), 1000), "is neither gzip nor zstd"),

		// What follows the end.
		refusedTar("bytes follow its end mark", gz(append(archive(release("1.1.0")...), "more"...)), "something follows its end mark"),
		refusedTar("another archive follows its end mark", gz(append(archive(release("1.1.0")...), archive(program("teleport/tbot", "x"))...)), "something follows its end mark"),
		refusedTar("two megabytes of zeros follow its end mark", zst(append(archive(release("1.1.0")...), make([]byte, 2<<20)...)), "more than 1048576 bytes follow its end mark"),
		refusedTar("it has no end mark", gz(archive(release("1.1.0")...)[:len(archive(release("1.1.0")...))-1024]), "it ends without its end mark"),
		refusedTar("it has half an end mark", gz(archive(release("1.1.0")...)[:len(archive(release("1.1.0")...))-512]), "it ends without its end mark"),
		refusedTar("bytes follow the gzip stream", append(sound("1.1.0"), "more"...), "something follows the compressed data"),
		refusedTar("a zero follows the gzip stream", append(sound("1.1.0"), 0), "something follows the compressed data"),
		refusedTar("a second gzip member follows", append(sound("1.1.0"), gz(archive(program("teleport/tbot", "x")))...), "something follows the compressed data"),
		refusedTar("an empty gzip member follows", append(sound("1.1.0"), gz(nil)...), "something follows the compressed data"),
		refusedTar("the archive is in two gzip members", append(gz(archive(release("1.1.0")...)[:4096]), gz(archive(release("1.1.0")...)[4096:])...), "something follows the compressed data"),
		refusedTar("a second zstd frame follows", append(zst(archive(release("1.1.0")...)), zst(archive(program("teleport/tbot", "x")))...), "something follows"),
		refusedTar("bytes follow the zstd frame", append(zst(archive(release("1.1.0")...)), "more"...), ""),

		// What is no archive.
		refusedTar("it is empty", []byte{}, "it is empty"),
		refusedTar("it is one byte", []byte{0x1f}, "is neither gzip nor zstd"),
		refusedTar("it is not compressed", archive(release("1.1.0")...), "is neither gzip nor zstd"),
		refusedTar("it is a web page", []byte("<!DOCTYPE html><title>Sign in</title>"), `begins with "<!DO" and is neither gzip nor zstd (did something other than the server answer?)`),
		refusedTar("it is a zip file", append([]byte("PK\x03\x04"), noise(1000)...), "is neither gzip nor zstd"),
		refusedTar("it is an xz file", append([]byte("\xfd7zXZ\x00"), noise(1000)...), "is neither gzip nor zstd"),
		refusedTar("it is a bzip2 file", append([]byte("BZh91AY"), noise(1000)...), "is neither gzip nor zstd"),
		refusedTar("it is a program", append([]byte("\x7fELF\x02\x01\x01"), noise(1000)...), "is neither gzip nor zstd"),
		refusedTar("it is noise", noise(4096), "is neither gzip nor zstd"),
		refusedTar("it is the noise of gzip", append([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), noise(4096)...), "release archive refused"),
		refusedTar("it is the noise of zstd", append([]byte("\x28\xb5\x2f\xfd"), noise(4096)...), "release archive refused"),
		refusedTar("it is a web page in gzip", gz(bytes.Repeat([]byte("<p>Sign in</p>"), 100)), damaged),
		refusedTar("it is gzip of nothing", gz(nil), "it ends without its end mark"),
		refusedTar("it is noise in gzip", gz(noise(4096)), damaged),
		refusedTar("it is an end mark alone", gz(endMark), "it holds no executable teleport"),
		refusedTar("its gzip method is unknown", spoiled(sound("1.1.0"), 2, 9), ""),
		refusedTar("its gzip checksum is wrong", spoiled(sound("1.1.0"), -8, 0x55), "it cannot be decompressed"),
		refusedTar("its gzip length is wrong", spoiled(sound("1.1.0"), -2, 0x55), "it cannot be decompressed"),
		refusedTar("its zstd checksum is wrong", spoiled(zst(archive(release("1.1.0")...)), -1, 0x55), "it cannot be decompressed"),
		refusedTar("a byte in the middle of it is wrong", spoiled(sound("1.1.0"), 300, 0x55), "release archive refused"),
		refusedEntry("the checksum of a header is wrong", damaged, entry{name: "teleport/tbot", mode: 0o755, data: "x", after: func(h []byte) { h[0] = 'T' }}),
		takenTar("a header is of the oldest kind", with(entry{name: "teleport/tbot", mode: 0o755, data: "x", spoil: func(h []byte) { clear(h[257:]) }}), nil),

		// What is no release.
		refusedTar("it has no agent", without("teleport"), "it holds no executable teleport"),
		refusedTar("the agent cannot be executed", without("teleport", file("teleport/teleport", script("1.1.0"))), "it holds no executable teleport"),
		refusedTar("the agent is a folder", without("teleport", dir("teleport/teleport/")), "it holds no executable teleport"),
		refusedTar("the agent lies deeper", without("teleport", program("teleport/bin/teleport", script("1.1.0"))), "it holds no executable teleport"),
		refusedTar("it has no unit", without("examples/systemd/teleport.service"), "it holds no examples/systemd/teleport.service"),
		refusedTar("the unit is a folder", without("examples/systemd/teleport.service", dir("teleport/examples/systemd/teleport.service/")), "it holds no examples/systemd/teleport.service"),
		refusedTar("the unit is of two megabytes", without("examples/systemd/teleport.service", file("teleport/examples/systemd/teleport.service", unitText+strings.Repeat("# more\n", 300000))), "has a unit of 2100246 bytes, more than 262144"),

		// What is a release and does not run. Such a version is not kept.
		refusedTar("the agent is empty", without("teleport", program("teleport/teleport", "")), "cannot be used on this host"),
		refusedTar("the agent is noise", without("teleport", program("teleport/teleport", string(noise(1000)))), "is it made for another kind of machine?"),
		refusedTar("the agent is of another version", without("teleport", program("teleport/teleport", script("1.0.0"))), "does not name that version"),
		refusedTar("the agent ends with an error", without("teleport", program("teleport/teleport", "#!/bin/sh\necho Teleport v1.1.0\nexit 3\n")), "exit status 3"),
		refusedTar("the agent says nothing", without("teleport", program("teleport/teleport", "#!/bin/sh\n")), "does not name that version"),
		refusedTar("the agent kills itself", without("teleport", program("teleport/teleport", "#!/bin/sh\nkill -9 $$\n")), "signal: killed"),
		refusedTar("the agent needs what is not here", without("teleport", program("teleport/teleport", "#!/no/such/interpreter\n")), "cannot be used on this host"),
		refusedTar("the agent speaks in escape sequences", without("teleport", program("teleport/teleport", "#!/bin/sh\nprintf '\\033[2J\\nerror: all is lost\\n'\n")), "does not name that version"),
		refusedTar("the agent waits for input", without("teleport", program("teleport/teleport", "#!/bin/sh\nread x\nexit 4\n")), "exit status 4"),
		refusedTar("the agent leaves a child that never ends", without("teleport", program("teleport/teleport", "#!/bin/sh\nsleep 33 &\nexit 5\n")), "exit status 5"),
	}
}

// unending is an agent that does not answer in time.
func unending(name, does string) hostile {
	c := refusedTar(name, without("teleport", program("teleport/teleport", "#!/bin/sh\n"+does+"\n")), "no answer within 30s")
	c.patience, c.long = 3*time.Minute, true
	return c
}

// gnuMagic makes a header one of GNU's.
func gnuMagic(h []byte) { copy(h[257:265], "ustar  \x00") }

func many(n int, make func(i int) entry) []entry {
	list := []entry{}
	for i := range n {
		list = append(list, make(i))
	}
	return list
}

// spoiled changes one byte, from the end where at is negative.
func spoiled(data []byte, at int, with byte) []byte {
	data = bytes.Clone(data)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= with
	return data
}

// exchangedTar is a tarball that does not match the checksum that was announced.
func exchangedTar() hostile {
	return hostile{name: "the tarball is another than the one announced", says: "does not match its checksum",
		serves: func(w *world) {
			w.checksum = strings.Repeat("0", 64)
			w.tarball = with(program("teleport/backdoor", "x"))
		}}
}

// endlessTar is a stream of files that never ends and does not compress.
func endlessTar() hostile {
	return hostile{name: "the archive never ends", says: "release archive refused", serves: func(w *world) {
		w.files = func(rw http.ResponseWriter, r *http.Request) {
			if isChecksum(r) {
				io.WriteString(rw, strings.Repeat("0", 64))
				return
			}
			z, _ := zstd.NewWriter(rw, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
			defer z.Close()
			for _, e := range release("1.1.0") {
				z.Write(e.bytes())
			}
			for i := 0; ; i++ {
				if _, err := z.Write(file(fmt.Sprintf("teleport/d/%d", i), fmt.Sprint(rand.Int64())).bytes()); err != nil {
					return
				}
			}
		}
	}}
}

// truncationCases cut a release at every 4 KiB: the stream, whatever compresses
// it, and the archive inside.
func truncationCases() []hostile {
	noise := make([]byte, 88<<10)
	rand.NewChaCha8([32]byte{2}).Read(noise)
	plain := archive(append(release("1.1.0"), program("teleport/tbot", string(noise)))...)
	var cases []hostile
	for _, kind := range []struct {
		name   string
		whole  []byte
		packed func([]byte) []byte
	}{
		{"the gzip stream", gz(plain), func(b []byte) []byte { return b }},
		{"the zstd stream", zst(plain), func(b []byte) []byte { return b }},
		{"the archive inside", plain, gz},
	} {
		for at := 4 << 10; at < len(kind.whole); at += 4 << 10 {
			cases = append(cases, refusedTar(fmt.Sprintf("%s ends after %d KiB", kind.name, at>>10), kind.packed(kind.whole[:at]), "release archive refused: it ends"))
		}
		cases = append(cases, refusedTar(kind.name+" lacks its last byte", kind.packed(kind.whole[:len(kind.whole)-1]), "release archive refused: it ends"))
	}
	return cases
}
