package tarball

import (
	"archive/tar"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Hostile is a tarball that must be refused.
type Hostile struct {
	Data []byte
	Says string // part of what is said of it
	// Rules are those of package archive that it breaks, in their order.
	Rules string
}

// HostileTarballs are each refused for a reason of its own, under the limits of 2 MiB
// of tarball, 100 entries, 1 MiB a file, 4 MiB in all and a ratio of 50 beyond 1 MiB;
// those that the ratio would stop first, Loose, without that. Their checksums match:
// it is the publisher who is hostile, or broken.
func HostileTarballs() map[string]Hostile {
	sound := Of(Sound("15.1.1")...)
	soundGz := Gzip(sound)
	noMark := sound[:len(sound)-1024]
	broken := slices.Clone(soundGz)
	broken[len(broken)-6] ^= 1
	badSum := slices.Clone(sound)
	badSum[148] ^= 1
	return map[string]Hostile{
		"a name that climbs out":               {with(Item{Name: "teleport/../../etc/passwd"}), "not clean and relative", "name"},
		"a name that climbs out at once":       {with(Item{Name: "../etc/passwd"}), "not clean and relative", "name"},
		"a name that climbs within":            {with(Item{Name: "teleport/x/../evil"}), "not clean and relative", "name"},
		"a name that ends above":               {with(Item{Name: "teleport/.."}), "not clean and relative", "name"},
		"a folder that climbs out":             {with(Item{Name: "teleport/../", Kind: tar.TypeDir}), "not clean and relative", "name"},
		"an absolute name":                     {with(Item{Name: "/etc/passwd"}), "not clean and relative", "name"},
		"a name with two slashes":              {with(Item{Name: "teleport//evil"}), "not clean and relative", "name"},
		"a name that begins with a dot":        {with(Item{Name: "./teleport/evil"}), "not clean and relative", "name"},
		"an empty name":                        {with(Item{Name: ""}), "not clean and relative", "name"},
		"a climbing name in an extended head":  {with(Item{Name: "x", Pax: map[string]string{"path": "teleport/../../evil"}}), "not clean and relative", "name"},
		"a climbing name as a long name":       {with(Item{Name: "x", LongName: "teleport/../../evil"}), "not clean and relative", "name"},
		"a name that is not UTF-8":             {with(Item{Name: "teleport/\xff\xfe"}), "not clean and relative", "name"},
		"a line break in a name":               {with(Item{Name: "teleport/a\nb"}), "control character", "characters"},
		"an escape sequence in a name":         {with(Item{Name: "teleport/\x1b[2J"}), "control character", "characters"},
		"a backslash in a name":                {with(Item{Name: `teleport/..\evil`}), "backslash", "characters"},
		"a NUL in a name of an extended head":  {with(Item{Name: "x", Pax: map[string]string{"path": "teleport/a\x00b"}}), "no tar archive", "damage"},
		"a name of 300 bytes":                  {with(Item{Name: "x", LongName: "teleport/" + strings.Repeat("a", 300)}), "more than 256 bytes", "name-length"},
		"an extended name of 300 bytes":        {with(Item{Name: "x", Pax: map[string]string{"path": "teleport/" + strings.Repeat("a", 300)}}), "more than 256 bytes", "name-length"},
		"a name of 2 MiB":                      {with(Item{Name: "x", LongName: strings.Repeat("a", 2<<20)}), "no tar archive, or it is damaged", "damage"},
		"a name 40 folders deep":               {with(Item{Name: "teleport/" + strings.Repeat("a/", 40) + "b"}), "folders deep", "depth"},
		"a symbolic link":                      {with(Item{Name: "teleport/evil", Kind: tar.TypeSymlink, Link: "/etc/passwd"}), "neither a file nor a folder", "kind"},
		"a symbolic link, then a file in it":   {with(Item{Name: "teleport/l", Kind: tar.TypeSymlink, Link: "/etc"}, Item{Name: "teleport/l/passwd"}), "neither a file nor a folder", "kind"},
		"a hard link":                          {with(Item{Name: "teleport/evil", Kind: tar.TypeLink, Link: "/etc/shadow"}), "neither a file nor a folder", "kind"},
		"a hard link inside":                   {with(Item{Name: "teleport/evil", Kind: tar.TypeLink, Link: "teleport/teleport"}), "neither a file nor a folder", "kind"},
		"a character device":                   {with(Item{Name: "teleport/null", Kind: tar.TypeChar}), "neither a file nor a folder", "kind"},
		"a block device":                       {with(Item{Name: "teleport/sda", Kind: tar.TypeBlock}), "neither a file nor a folder", "kind"},
		"a named pipe":                         {with(Item{Name: "teleport/pipe", Kind: tar.TypeFifo}), "neither a file nor a folder", "kind"},
		"a contiguous file":                    {with(Item{Name: "teleport/c", Kind: tar.TypeCont}), "neither a file nor a folder", "kind"},
		"an entry of an unknown type":          {with(Item{Name: "teleport/z", Kind: 'Z'}), "neither a file nor a folder", "kind"},
		"a global extended header":             {with(Item{Name: "pax_global_header", Kind: tar.TypeXGlobalHeader, Data: paxRecord("path", "teleport/evil")}), "neither a file nor a folder", "kind"},
		"a program twice":                      {with(Item{Name: "teleport/teleport", Data: "evil"}), "comes twice", "twice"},
		"a file that is dropped twice":         {with(Item{Name: "teleport/VERSION", Mode: 0o644}), "comes twice", "twice"},
		"a folder twice":                       {with(Item{Name: "teleport/", Kind: tar.TypeDir}), "comes twice", "twice"},
		"a program again as a folder":          {with(Item{Name: "teleport/tsh/", Kind: tar.TypeDir}), "comes twice", "twice"},
		"a folder again as a file":             {with(Item{Name: "teleport/examples"}), "comes twice", "twice"},
		"an implied folder again as a file":    {with(Item{Name: "teleport/x/y"}, Item{Name: "teleport/x"}), "comes twice", "twice"},
		"a file below a file":                  {with(Item{Name: "teleport/tsh/evil"}), "lies below a file", "below-file"},
		"a file below a dropped file":          {with(Item{Name: "teleport/VERSION/evil"}), "lies below a file", "below-file"},
		"a setuid program":                     {with(Item{Name: "teleport/su", Mode: 0o4755}), "no setuid", "mode"},
		"a setgid program":                     {with(Item{Name: "teleport/sg", Mode: 0o2755}), "no setuid", "mode"},
		"a sticky file":                        {with(Item{Name: "teleport/st", Mode: 0o1755}), "no setuid", "mode"},
		"a setuid file that would be dropped":  {with(Item{Name: "teleport/doc/su", Mode: 0o4755}), "no setuid", "mode"},
		"an old GNU sparse file":               {with(Item{Name: "teleport/s", Kind: tar.TypeGNUSparse}), "", "damage"},
		"a PAX sparse file, format 0.1":        {with(Item{Name: "teleport/s", Pax: map[string]string{"GNU.sparse.size": "1000", "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0"}}), "sparse", "sparse"},
		"a PAX sparse file, format 1.0":        {with(Item{Name: "teleport/s", Data: "0\n" + strings.Repeat("\x00", 510), Pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "teleport/evil", "GNU.sparse.realsize": "1099511627776"}}), "", "sparse size"},
		"a file of 8 EiB":                      {with(Item{Name: "teleport/big", Size: math.MaxInt64}), "more than 1048576", "size cut"},
		"a file over the limit":                {with(Item{Name: "teleport/big", Data: strings.Repeat("x", 1<<20+1)}), "more than 1048576", "size"},
		"files over the limit together":        {with(manyFiles(5, 1<<20)...), "it holds more than 4.0 MiB", "total"},
		"too many entries":                     {with(manyFiles(101, 0)...), "more than 100 entries", "entries"},
		"a bomb by ratio":                      {with(manyFiles(2, 1<<20)...), "times its size", "ratio"},
		"a zstd bomb by ratio":                 {Zstd(Of(append(Sound("15.1.1"), manyFiles(2, 1<<20)...)...)), "times its size", "ratio"},
		"a zstd window over the limit":         {Zstd(slices.Concat(sound, make([]byte, 16<<20)), zstd.WithWindowSize(16<<20)), "zstd window", "window"},
		"a second gzip member":                 {slices.Concat(soundGz, Gzip([]byte("x"))), "something follows the compressed data", "trailing"},
		"an empty second gzip member":          {slices.Concat(soundGz, Gzip(nil)), "something follows the compressed data", "trailing"},
		"garbage after gzip":                   {slices.Concat(soundGz, []byte("garbage")), "something follows the compressed data", "trailing"},
		"zeros after gzip":                     {slices.Concat(soundGz, make([]byte, 512)), "something follows the compressed data", "trailing"},
		"a second zstd frame with content":     {slices.Concat(Zstd(sound), Zstd([]byte("x"))), "something follows its end mark", "trailing"},
		"garbage after zstd":                   {slices.Concat(Zstd(sound), []byte("garbage")), "damaged", "damage"},
		"data after the end mark":              {Gzip(slices.Concat(sound, []byte("evil"))), "something follows its end mark", "trailing"},
		"a second archive after the end mark":  {Gzip(slices.Concat(sound, Of(Item{Name: "teleport/evil"}))), "something follows its end mark", "trailing"},
		"2 MiB of padding":                     {slices.Concat(Gzip(slices.Concat(sound, make([]byte, 2<<20)))), "follow its end mark", "trailing"},
		"no end mark":                          {Gzip(noMark), "without its end mark", "end-mark"},
		"half an end mark":                     {Gzip(slices.Concat(noMark, make([]byte, 512))), "without its end mark", "end-mark"},
		"an archive cut in a file":             {Gzip(sound[:512*12+5]), "in the middle of an entry", "cut"},
		"an archive cut in a header":           {Gzip(sound[:512*3+100]), "in the middle of an entry", "cut"},
		"a header whose sum is wrong":          {Gzip(badSum), "no tar archive", "damage"},
		"a wrong CRC":                          {broken, "damaged", "damage"},
		"not an archive":                       {Gzip([]byte(strings.Repeat("words ", 1000))), "no tar archive", "damage"},
		"an empty archive":                     {Gzip(Of()), "no executable teleport", "agent unit"},
		"nothing at all":                       {nil, "it is empty", "format"},
		"a plain tar":                          {sound, "neither gzip nor zstd", "format"},
		"a web page":                           {[]byte("<!DOCTYPE html><title>Sign in</title>"), "neither gzip nor zstd", "format"},
		"two bytes":                            {[]byte{0x1f, 0x8b}, "decompress", "damage"},
		"another top folder":                   {Gzip(Of(Under("tele", Sound("15.1.1"))...)), "not in a folder teleport", "top top top top top top top top top top agent unit"},
		"a file beside the top folder":         {with(Item{Name: "evil"}), "not in a folder teleport", "top"},
		"two top folders":                      {with(Item{Name: "teleport-ent/evil"}), "two top folders", "one-top"},
		"a top folder that is a file":          {Gzip(Of(Item{Name: "teleport"})), "is a file", "top-file agent unit"},
		"no agent":                             {Gzip(Of(less("teleport/teleport")...)), "no executable teleport", "agent"},
		"no unit":                              {Gzip(Of(less("teleport/examples/systemd/teleport.service")...)), "no examples/systemd/teleport.service", "unit"},
		"an agent that nobody may execute":     {Gzip(Of(append(less("teleport/teleport"), Item{Name: "teleport/teleport", Mode: 0o644})...)), "no executable teleport", "agent"},
		"an agent only further down":           {Gzip(Of(append(less("teleport/teleport"), Item{Name: "teleport/bin/teleport"})...)), "no executable teleport", "agent"},
		"an agent that is a folder":            {Gzip(Of(append(less("teleport/teleport"), Item{Name: "teleport/teleport/", Kind: tar.TypeDir})...)), "no executable teleport", "agent"},
		"a unit that is a folder":              {Gzip(Of(append(less("teleport/examples/systemd/teleport.service"), Item{Name: "teleport/examples/systemd/teleport.service/", Kind: tar.TypeDir})...)), "no examples/systemd/teleport.service", "unit"},
		"a unit larger than any":               {Gzip(Of(append(less("teleport/examples/systemd/teleport.service"), Item{Name: "teleport/examples/systemd/teleport.service", Data: strings.Repeat("#", 256<<10+1)})...)), "has a unit of 262145 bytes, more than 262144", "unit-size"},
		"a unit that is a link":                {Gzip(Of(append(less("teleport/examples/systemd/teleport.service"), Item{Name: "teleport/examples/systemd/teleport.service", Kind: tar.TypeSymlink, Link: "/etc/passwd"})...)), "neither a file nor a folder", "kind"},
		"a tarball over the limit of download": {slices.Concat(soundGz, make([]byte, 3<<20)), "more than the limit", "trailing tarball"},
	}
}

// Loose reports whether the limit on the ratio would come before what the tarball is
// refused for.
func (h Hostile) Loose() bool {
	return strings.HasPrefix(h.Says, "it holds") || strings.Contains(h.Says, "follow")
}

// with is a sound release's tarball with more entries at its end.
func with(items ...Item) []byte { return Gzip(Of(append(Sound("15.1.1"), items...)...)) }

func less(name string) []Item { return Without(Sound("15.1.1"), name) }

func manyFiles(n, size int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{Name: fmt.Sprintf("teleport/doc/%d", i), Data: strings.Repeat("\x01", size)}
	}
	return items
}
