package versions

import (
	"archive/tar"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"teleport-update/internal/version"
)

func TestASoundReleaseIsUnpackedWithOurModesWhateverTheUmask(t *testing.T) {
	tarball := tarOf(soundItems("15.1.1")...)
	for name, data := range map[string][]byte{
		"gzip":                gz(tarball),
		"gzip padded by tar":  gz(append(tarball, make([]byte, 9<<10)...)),
		"zstd":                zst(tarball),
		"zstd with a window":  zst(tarball, zstd.WithWindowSize(MaxZstdWindow)),
		"under teleport-ent/": gz(tarOf(underTop("teleport-ent", soundItems("15.1.1"))...)),
	} {
		t.Run(name, func(t *testing.T) {
			old := syscall.Umask(0o027)
			defer syscall.Umask(old)
			f, _ := testFetcher(t, nil)
			tree, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, data)}})
			if err != nil {
				t.Fatal(err)
			}
			got := contents(t, tree.Dir)
			want := []string{
				"bin drwxr-xr-x",
				"bin/tctl -rwxr-xr-x tctl 15.1.1",
				"bin/teleport -rwxr-xr-x " + teleportScript("15.1.1"),
				"bin/tsh -rwxr-xr-x tsh 15.1.1",
				"edition -rw-r--r-- oss\n",
				"etc drwxr-xr-x",
				"etc/systemd drwxr-xr-x",
				"etc/systemd/teleport.service -rw-r--r-- " + testUnit,
				"manifest -rw-r--r-- " + string(formatManifest([]sum{
					sumOf("bin/tsh", []byte("tsh 15.1.1")),
					sumOf("bin/tctl", []byte("tctl 15.1.1")),
					sumOf("bin/teleport", []byte(teleportScript("15.1.1"))),
					sumOf("edition", []byte("oss\n")),
					sumOf("etc/systemd/teleport.service", []byte(testUnit)),
				})),
				"sha256 -rw-r--r-- " + digestHex(data) + "\n",
			}
			if !slices.Equal(got, want) {
				t.Errorf("tree:\n%q\nwant:\n%q", got, want)
			}
			if tree.SHA256 != digestHex(data) || filepath.Base(tree.Dir) != "15.1.1" {
				t.Errorf("tree is %+v", tree)
			}
			if info, _ := os.Stat(tree.Dir); info.Mode().Perm() != 0o755 {
				t.Errorf("the folder has mode %v; want 0755", info.Mode())
			}
			if err := tree.Verify(context.Background()); err != nil {
				t.Error(err)
			}
			if out, err := sha256sum(tree.Dir); err != nil {
				t.Errorf("sha256sum -c: %v\n%s", err, out)
			}
			entries, err := os.ReadDir(f.Store.PartialDir())
			if err != nil || len(entries) > 0 {
				t.Errorf("partial/ holds %v, %v; want nothing", entries, err)
			}
		})
	}
}

func sha256sum(dir string) ([]byte, error) {
	cmd := exec.Command("sha256sum", "--check", "--strict", "manifest")
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

func underTop(top string, items []item) []item {
	items = slices.Clone(items)
	for i := range items {
		items[i].name = strings.Replace(items[i].name, "teleport/", top+"/", 1)
	}
	return items
}

// with returns a sound release's tarball with more entries at its end.
func with(items ...item) []byte {
	return gz(tarOf(append(soundItems("15.1.1"), items...)...))
}

// hostileTarballs are tarballs that must be refused, each for its own reason.
// Their checksums match: it is the publisher who is hostile, or broken.
func hostileTarballs() map[string]struct {
	data []byte
	want string // part of the error
} {
	type refused = struct {
		data []byte
		want string
	}
	sound := tarOf(soundItems("15.1.1")...)
	soundGz := gz(sound)
	noMark := sound[:len(sound)-1024]
	broken := slices.Clone(soundGz)
	broken[len(broken)-6] ^= 1
	badSum := slices.Clone(sound)
	badSum[148] ^= 1
	cases := map[string]refused{
		"a name that climbs out":               {with(item{name: "teleport/../../etc/passwd"}), "not clean and relative"},
		"a name that climbs out at once":       {with(item{name: "../etc/passwd"}), "not clean and relative"},
		"a name that climbs within":            {with(item{name: "teleport/x/../evil"}), "not clean and relative"},
		"a name that ends above":               {with(item{name: "teleport/.."}), "not clean and relative"},
		"a folder that climbs out":             {with(item{name: "teleport/../", kind: tar.TypeDir}), "not clean and relative"},
		"an absolute name":                     {with(item{name: "/etc/passwd"}), "not clean and relative"},
		"a name with two slashes":              {with(item{name: "teleport//evil"}), "not clean and relative"},
		"a name that begins with a dot":        {with(item{name: "./teleport/evil"}), "not clean and relative"},
		"an empty name":                        {with(item{name: ""}), "not clean and relative"},
		"a climbing name in an extended head":  {with(item{name: "x", pax: map[string]string{"path": "teleport/../../evil"}}), "not clean and relative"},
		"a climbing name as a long name":       {with(item{name: "x", longName: "teleport/../../evil"}), "not clean and relative"},
		"a name that is not UTF-8":             {with(item{name: "teleport/\xff\xfe"}), "not clean and relative"},
		"a line break in a name":               {with(item{name: "teleport/a\nb"}), "control character"},
		"an escape sequence in a name":         {with(item{name: "teleport/\x1b[2J"}), "control character"},
		"a backslash in a name":                {with(item{name: `teleport/..\evil`}), "backslash"},
		"a NUL in a name of an extended head":  {with(item{name: "x", pax: map[string]string{"path": "teleport/a\x00b"}}), "no tar archive"},
		"a name of 300 bytes":                  {with(item{name: "x", longName: "teleport/" + strings.Repeat("a", 300)}), "more than 256 bytes"},
		"an extended name of 300 bytes":        {with(item{name: "x", pax: map[string]string{"path": "teleport/" + strings.Repeat("a", 300)}}), "more than 256 bytes"},
		"a name of 2 MiB":                      {with(item{name: "x", longName: strings.Repeat("a", 2<<20)}), "no tar archive, or it is damaged"},
		"a name 40 folders deep":               {with(item{name: "teleport/" + strings.Repeat("a/", 40) + "b"}), "folders deep"},
		"a symbolic link":                      {with(item{name: "teleport/evil", kind: tar.TypeSymlink, link: "/etc/passwd"}), "neither a file nor a folder"},
		"a symbolic link, then a file in it":   {with(item{name: "teleport/l", kind: tar.TypeSymlink, link: "/etc"}, item{name: "teleport/l/passwd"}), "neither a file nor a folder"},
		"a hard link":                          {with(item{name: "teleport/evil", kind: tar.TypeLink, link: "/etc/shadow"}), "neither a file nor a folder"},
		"a hard link inside":                   {with(item{name: "teleport/evil", kind: tar.TypeLink, link: "teleport/teleport"}), "neither a file nor a folder"},
		"a character device":                   {with(item{name: "teleport/null", kind: tar.TypeChar}), "neither a file nor a folder"},
		"a block device":                       {with(item{name: "teleport/sda", kind: tar.TypeBlock}), "neither a file nor a folder"},
		"a named pipe":                         {with(item{name: "teleport/pipe", kind: tar.TypeFifo}), "neither a file nor a folder"},
		"a contiguous file":                    {with(item{name: "teleport/c", kind: tar.TypeCont}), "neither a file nor a folder"},
		"an entry of an unknown type":          {with(item{name: "teleport/z", kind: 'Z'}), "neither a file nor a folder"},
		"a global extended header":             {with(item{name: "pax_global_header", kind: tar.TypeXGlobalHeader, data: paxRecord("path", "teleport/evil")}), "neither a file nor a folder"},
		"a program twice":                      {with(item{name: "teleport/teleport", data: "evil"}), "comes twice"},
		"a file that is dropped twice":         {with(item{name: "teleport/VERSION", mode: 0o644}), "comes twice"},
		"a folder twice":                       {with(item{name: "teleport/", kind: tar.TypeDir}), "comes twice"},
		"a program again as a folder":          {with(item{name: "teleport/tsh/", kind: tar.TypeDir}), "comes twice"},
		"a folder again as a file":             {with(item{name: "teleport/examples"}), "comes twice"},
		"an implied folder again as a file":    {with(item{name: "teleport/x/y"}, item{name: "teleport/x"}), "comes twice"},
		"a file below a file":                  {with(item{name: "teleport/tsh/evil"}), "lies below a file"},
		"a file below a dropped file":          {with(item{name: "teleport/VERSION/evil"}), "lies below a file"},
		"a setuid program":                     {with(item{name: "teleport/su", mode: 0o4755}), "no setuid"},
		"a setgid program":                     {with(item{name: "teleport/sg", mode: 0o2755}), "no setuid"},
		"a sticky file":                        {with(item{name: "teleport/st", mode: 0o1755}), "no setuid"},
		"a setuid file that would be dropped":  {with(item{name: "teleport/doc/su", mode: 0o4755}), "no setuid"},
		"an old GNU sparse file":               {with(item{name: "teleport/s", kind: tar.TypeGNUSparse}), ""},
		"a PAX sparse file, format 0.1":        {with(item{name: "teleport/s", pax: map[string]string{"GNU.sparse.size": "1000", "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0"}}), "sparse"},
		"a PAX sparse file, format 1.0":        {with(item{name: "teleport/s", data: "0\n" + strings.Repeat("\x00", 510), pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "teleport/evil", "GNU.sparse.realsize": "1099511627776"}}), ""},
		"a file of 8 EiB":                      {with(item{name: "teleport/big", size: math.MaxInt64}), "more than 1048576"},
		"a file over the limit":                {with(item{name: "teleport/big", data: strings.Repeat("x", 1<<20+1)}), "more than 1048576"},
		"files over the limit together":        {with(manyFiles(5, 1<<20)...), "it holds more than 4.0 MiB"},
		"too many entries":                     {with(manyFiles(101, 0)...), "more than 100 entries"},
		"a bomb by ratio":                      {with(manyFiles(2, 1<<20)...), "times its size"},
		"a zstd bomb by ratio":                 {zst(tarOf(append(soundItems("15.1.1"), manyFiles(2, 1<<20)...)...)), "times its size"},
		"a zstd window over the limit":         {zst(slices.Concat(sound, make([]byte, 16<<20)), zstd.WithWindowSize(16<<20)), "zstd window"},
		"a second gzip member":                 {slices.Concat(soundGz, gz([]byte("x"))), "something follows the compressed data"},
		"an empty second gzip member":          {slices.Concat(soundGz, gz(nil)), "something follows the compressed data"},
		"garbage after gzip":                   {slices.Concat(soundGz, []byte("garbage")), "something follows the compressed data"},
		"zeros after gzip":                     {slices.Concat(soundGz, make([]byte, 512)), "something follows the compressed data"},
		"a second zstd frame with content":     {slices.Concat(zst(sound), zst([]byte("x"))), "something follows its end mark"},
		"garbage after zstd":                   {slices.Concat(zst(sound), []byte("garbage")), "damaged"},
		"data after the end mark":              {gz(slices.Concat(sound, []byte("evil"))), "something follows its end mark"},
		"a second archive after the end mark":  {gz(slices.Concat(sound, tarOf(item{name: "teleport/evil"}))), "something follows its end mark"},
		"2 MiB of padding":                     {slices.Concat(gz(slices.Concat(sound, make([]byte, 2<<20)))), "follow its end mark"},
		"no end mark":                          {gz(noMark), "without its end mark"},
		"half an end mark":                     {gz(slices.Concat(noMark, make([]byte, 512))), "without its end mark"},
		"an archive cut in a file":             {gz(sound[:512*12+5]), "in the middle of an entry"},
		"an archive cut in a header":           {gz(sound[:512*3+100]), "in the middle of an entry"},
		"a header whose sum is wrong":          {gz(badSum), "no tar archive"},
		"a wrong CRC":                          {broken, "damaged"},
		"not an archive":                       {gz([]byte(strings.Repeat("words ", 1000))), "no tar archive"},
		"an empty archive":                     {gz(tarOf()), "no executable teleport"},
		"nothing at all":                       {nil, "it is empty"},
		"a plain tar":                          {sound, "neither gzip nor zstd"},
		"a web page":                           {[]byte("<!DOCTYPE html><title>Sign in</title>"), "neither gzip nor zstd"},
		"two bytes":                            {[]byte{0x1f, 0x8b}, "decompress"},
		"another top folder":                   {gz(tarOf(underTop("tele", soundItems("15.1.1"))...)), "not in a folder teleport"},
		"a file beside the top folder":         {with(item{name: "evil"}), "not in a folder teleport"},
		"two top folders":                      {with(item{name: "teleport-ent/evil"}), "two top folders"},
		"a top folder that is a file":          {gz(tarOf(item{name: "teleport"})), "is a file"},
		"no agent":                             {gz(tarOf(without("teleport/teleport")...)), "no executable teleport"},
		"no unit":                              {gz(tarOf(without("teleport/examples/systemd/teleport.service")...)), "no examples/systemd/teleport.service"},
		"an agent that nobody may execute":     {gz(tarOf(append(without("teleport/teleport"), item{name: "teleport/teleport", mode: 0o644})...)), "no executable teleport"},
		"an agent only further down":           {gz(tarOf(append(without("teleport/teleport"), item{name: "teleport/bin/teleport"})...)), "no executable teleport"},
		"an agent that is a folder":            {gz(tarOf(append(without("teleport/teleport"), item{name: "teleport/teleport/", kind: tar.TypeDir})...)), "no executable teleport"},
		"a unit that is a folder":              {gz(tarOf(append(without("teleport/examples/systemd/teleport.service"), item{name: "teleport/examples/systemd/teleport.service/", kind: tar.TypeDir})...)), "no examples/systemd/teleport.service"},
		"a unit larger than any":               {gz(tarOf(append(without("teleport/examples/systemd/teleport.service"), item{name: "teleport/examples/systemd/teleport.service", data: strings.Repeat("#", MaxUnit+1)})...)), "has a unit of 262145 bytes, more than 262144"},
		"a unit that is a link":                {gz(tarOf(append(without("teleport/examples/systemd/teleport.service"), item{name: "teleport/examples/systemd/teleport.service", kind: tar.TypeSymlink, link: "/etc/passwd"})...)), "neither a file nor a folder"},
		"a tarball over the limit of download": {slices.Concat(soundGz, make([]byte, 3<<20)), "more than the limit"},
	}
	return cases
}

func manyFiles(n, size int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{name: fmt.Sprintf("teleport/doc/%d", i), data: strings.Repeat("\x01", size)}
	}
	return items
}

func without(name string) []item {
	return slices.DeleteFunc(soundItems("15.1.1"), func(it item) bool { return it.name == name })
}

func TestHostileTarballsAreRefusedAndLeaveNothing(t *testing.T) {
	for name, tc := range hostileTarballs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := testFetcher(t, nil)
			f.Limits = Limits{Download: 2 << 20, Entries: 100, File: 1 << 20, Total: 4 << 20, Ratio: 50, Slack: 1 << 20}
			if strings.HasPrefix(tc.want, "it holds") || strings.Contains(tc.want, "follow") {
				f.Limits.Slack = 1 << 30
			}
			victim := filepath.Join(filepath.Dir(f.Store.Dir), "evil")
			tree, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, tc.data)}})
			if err == nil {
				t.Fatalf("it was published as %s:\n%q", tree.Dir, contents(t, tree.Dir))
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q; want it to say %q", err, tc.want)
			}
			if strings.Count(err.Error(), "refused") > 1 {
				t.Errorf("the error repeats itself: %q", err)
			}
			wantNothingLeft(t, f.Store)
			if _, err := os.Lstat(victim); err == nil {
				t.Errorf("%s was written", victim)
			}
		})
	}
}

func TestATarballCutAnywhereIsRefused(t *testing.T) {
	whole := largeRelease("15.1.1", 160<<10)
	if len(whole) < 40*4096 {
		t.Fatalf("the release has only %d bytes", len(whole))
	}
	for cut := 0; cut < len(whole); cut += 4096 {
		t.Run(fmt.Sprint("at ", cut), func(t *testing.T) {
			t.Parallel()
			f, _ := testFetcher(t, nil)
			if _, err := f.Fetch(context.Background(), FetchRequest{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, whole[:cut])}}); err == nil {
				t.Error("it was published")
			}
			wantNothingLeft(t, f.Store)
		})
	}
}

func TestUnpackingNeverLeavesItsFolder(t *testing.T) {
	// Whatever a future rule overlooks: the folder itself is the limit.
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/tree", 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := newTreeWriter(dir + "/tree")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../..", dir+"/tree/out"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../evil", "out/evil", "/evil", "a/../../evil"} {
		if _, err := w.create(name, 0o644, 0); err == nil {
			t.Errorf("%s was created", name)
		}
	}
	if err := w.finish(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir + "/evil"); err == nil {
		t.Error("a file was written outside")
	}
}

func TestEditionsOfOneVersionLieSideBySide(t *testing.T) {
	f, _ := testFetcher(t, nil)
	first := publish(t, f, oss("15.1.1"))
	second := publish(t, f, Release{Version: "15.1.1", Edition: version.Enterprise})
	third := publish(t, f, Release{Version: "15.1.1", Edition: version.FIPS})
	for tree, want := range map[Tree]string{first: "15.1.1", second: "15.1.1_enterprise", third: "15.1.1_enterprise-fips"} {
		if filepath.Base(tree.Dir) != want {
			t.Errorf("%v is in %s; want %s", tree.Release, tree.Dir, want)
		}
		found, ok, err := f.Store.Lookup(tree.Release)
		if err != nil || !ok || found != tree {
			t.Errorf("Lookup(%v) = %+v, %v, %v; want %+v", tree.Release, found, ok, err, tree)
		}
	}
}

func TestAReleaseIsReplacedInTheFolderThatItIsIn(t *testing.T) {
	f, _ := testFetcher(t, nil)
	first := publish(t, f, oss("15.1.1"))
	r := Release{Version: "15.1.1", Edition: version.Enterprise}
	tree := publish(t, f, r)
	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tree.BackupDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := f.Fetch(t.Context(), FetchRequest{Release: r, Sources: []*Template{onDisk(t, gz(tarOf(soundItems("15.1.1")...)))}, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.Dir != tree.Dir {
		t.Errorf("it is in %s now, apart from its backup; want %s", again.Dir, tree.Dir)
	}
	if _, err := os.Stat(again.BackupDir()); err != nil {
		t.Error(err)
	}
}
