package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"teleport-update/integration/tarball"
)

func limitsOf(h tarball.Hostile) Limits {
	limits := smallLimits
	if h.Loose() {
		limits.Slack = 1 << 30
	}
	return limits
}

var (
	smallLimits = Limits{Download: 2 << 20, Entries: 100, File: 1 << 20, Total: 4 << 20, Ratio: 50, Slack: 1 << 20}
	// Those of random archives, which are many.
	tinyLimits = Limits{Download: 96 << 10, Entries: 60, File: 64 << 10, Total: 512 << 10, Ratio: 50, Slack: 384 << 10}
)

func rulesOf(found []*Violation) string {
	var rules []string
	for _, v := range found {
		rules = append(rules, v.Rule)
	}
	return strings.Join(rules, " ")
}

func TestASoundReleaseBreaksNoRule(t *testing.T) {
	for name, data := range map[string][]byte{
		"gzip": tarball.Gzip(tarball.Of(tarball.Sound("15.1.1")...)), "zstd": tarball.Zstd(tarball.Of(tarball.Sound("15.1.1")...)),
		"with a large program": tarball.Large("15.1.1", 3<<20),
	} {
		if found, err := Check(bytes.NewReader(data), DefaultLimits()); err != nil || found != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestEachHostileTarballIsRefusedByItsRules(t *testing.T) {
	for name, h := range tarball.HostileTarballs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := Check(bytes.NewReader(h.Data), limitsOf(h))
			if err != nil || rulesOf(found) != h.Rules {
				t.Errorf("Check: %q, %v; want %q", rulesOf(found), err, h.Rules)
			}
			wantSame(t, h.Data, limitsOf(h))
		})
	}
}

// TestTheRulesAreThoseOfTheComment: none is left out of it, none is only in it, and
// each has a tarball that breaks it.
func TestTheRulesAreThoseOfTheComment(t *testing.T) {
	source, err := os.ReadFile("archive.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(source), "\npackage archive\n")
	var documented, broken []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z-]+) {2,}`).FindAllStringSubmatch(doc, -1) {
		documented = append(documented, m[1])
	}
	for _, h := range tarball.HostileTarballs() {
		broken = append(broken, strings.Fields(h.Rules)...)
	}
	slices.Sort(broken)
	slices.Sort(documented)
	if broken = slices.Compact(broken); !slices.Equal(documented, broken) {
		t.Errorf("the comment tells of\n\t%q\nand the tarballs break\n\t%q", documented, broken)
	}
	for _, r := range (&reader{}).rules(entryOf(&tar.Header{})) {
		if !slices.Contains(documented, r.name) {
			t.Errorf("rule %s is not in the comment", r.name)
		}
	}
}

func TestEveryViolationIsNamed(t *testing.T) {
	items := slices.Concat(
		tarball.Without(tarball.Sound("15.1.1"), "teleport/examples/systemd/teleport.service"),
		[]tarball.Item{
			{Name: "teleport/su", Mode: 0o4755},
			{Name: `../` + strings.Repeat("a/", 20) + "\x1b", LongName: "../" + strings.Repeat("aaaaaaaaaaaaaaaa/", 20) + "\x1b", Kind: tar.TypeSymlink},
			{Name: "teleport/tsh", Mode: 0o6755, Data: "again"},
			{Name: "teleport/tsh/below", Data: strings.Repeat("x", 1<<20+1)},
			{Name: "teleport-ent/tsh"},
			{Name: "evil"},
			{Name: "evil"},
		})
	want := []string{
		`release archive refused: entry "teleport/su" has mode 04755: no setuid, setgid or sticky files`,
		`is neither a file nor a folder but a symbolic link`,
		`has a name of more than 256 bytes`,
		`lies more than 16 folders deep`,
		`has a name that is not clean and relative`,
		`has a control character or a backslash in its name`,
		`entry "teleport/tsh" has mode 06755`,
		`entry "teleport/tsh" comes twice`,
		`entry "teleport/tsh/below" lies below a file`,
		`entry "teleport/tsh/below" is of 1048577 bytes, more than 1048576`,
		`it has two top folders, teleport and teleport-ent`,
		`entry "evil" is not in a folder teleport or teleport-ent`,
		`entry "evil" is not in a folder teleport or teleport-ent`,
		`entry "evil" comes twice`,
		`something follows its end mark`,
		`it holds no examples/systemd/teleport.service`,
	}
	found, err := Check(bytes.NewReader(tarball.Gzip(append(tarball.Of(items...), "evil"...))), limitsOf(tarball.Hostile{Says: "follow"}))
	if err != nil || len(found) != len(want) {
		t.Fatalf("%v, %v; want %d violations", found, err, len(want))
	}
	for i, v := range found {
		if !strings.Contains(v.Error(), want[i]) {
			t.Errorf("%d: %q; want %q", i, v, want[i])
		}
	}
}

// TestUnpackRefusesWhatCheckNames: over random archives, the one takes exactly those
// of which the other names nothing, and refuses others for the first that is named.
func TestUnpackRefusesWhatCheckNames(t *testing.T) {
	archives := 600
	if testing.Short() {
		archives = 150
	}
	sound, several := 0, 0
	kinds := make(map[string]bool)
	for seed := range uint64(archives) {
		random := rand.New(rand.NewPCG(seed, 1))
		ops := make([]byte, random.IntN(24))
		for i := range ops {
			ops[i] = byte(random.Uint32())
		}
		found := wantSame(t, generate(ops), tinyLimits)
		if t.Failed() {
			t.Fatalf("archive %d, of %x", seed, ops)
		}
		if len(found) == 0 {
			sound++
		}
		if len(found) > 1 {
			several++
		}
		for _, v := range found {
			kinds[v.Rule] = true
		}
	}
	// What does not reach both sides of the line shows nothing.
	if sound < archives/20 || several < archives/20 || len(kinds) < 20 {
		t.Errorf("of %d archives, %d are sound and %d break several rules, in all %d different ones", archives, sound, several, len(kinds))
	}
}

// FuzzUnpackRefusesWhatCheckNames is the same for the archives that the fuzzer comes to.
func FuzzUnpackRefusesWhatCheckNames(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 250})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) <= 64 {
			wantSame(t, generate(ops), tinyLimits)
		}
	})
}

// wantSame compares Check and Unpack, to which the bytes come in other pieces.
func wantSame(t *testing.T, data []byte, limits Limits) []*Violation {
	t.Helper()
	found, err := Check(bytes.NewReader(data), limits)
	if err != nil {
		t.Errorf("Check: %v", err)
	}
	m := &memory{t: t, files: make(map[string]*memoryFile)}
	_, err = Unpack(iotest.HalfReader(bytes.NewReader(data)), limits, m, func() {})
	switch v, refused := errors.AsType[*Violation](err); {
	case err != nil && !refused:
		t.Errorf("Unpack: %v", err)
	case refused != (len(found) > 0):
		t.Errorf("Unpack says %v, and Check %v", err, found)
	case refused && *v != *found[0]:
		t.Errorf("Unpack says %q, and Check first %q", v, found[0])
	case !refused:
		m.whole()
	}
	return found
}

// generate makes an archive from a sound one: each byte adds, removes or spoils
// something.
func generate(ops []byte) []byte {
	names := []string{"teleport/tbot", "teleport/doc/x", "teleport/doc", "teleport/tsh", "teleport/tsh/x", "teleport-ent/x", "teleport", "teleport/../x", "/x", "x",
		"teleport/a\x01", `teleport/a\b`, "teleport/\xff", "teleport/" + strings.Repeat("d/", 20) + "x", "teleport/" + strings.Repeat("n", 300), "teleport/examples/systemd/teleport.service"}
	items := tarball.Sound("15.1.1")
	cut, spoil, zstd, tail := 0, 0, false, ""
	for i, op := range ops {
		next := func(n int) int { return int(ops[(i+1)%len(ops)]) % n }
		switch name := names[next(len(names))]; op % 32 {
		case 0, 1, 2:
			items = append(items, tarball.Item{Name: "x", LongName: name, Data: strings.Repeat("y", next(2000))})
		case 3:
			items = append(items, tarball.Item{Name: "x", LongName: name + "/", Kind: tar.TypeDir})
		case 4:
			items = append(items, tarball.Item{Name: "x", LongName: name, Kind: "1234567gSZ"[next(10)], Link: "/etc/passwd"})
		case 5:
			items = append(items, tarball.Item{Name: "x", LongName: name, Mode: int64(next(8))<<9 | 0o755})
		case 6:
			items = append(items, tarball.Item{Name: "teleport/large", Data: strings.Repeat("z", 64<<10-10+next(20))})
		case 7:
			items = append(items, tarball.Item{Name: "teleport/s", Pax: map[string]string{"GNU.sparse.size": "1000", "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0"}})
		case 8:
			items = slices.Delete(items, next(len(items)+1)%max(len(items), 1), min(next(len(items)+1)%max(len(items), 1)+1, len(items)))
		case 9:
			for n := range next(80) {
				items = append(items, tarball.Item{Name: fmt.Sprintf("teleport/many/%d/%d", i, n), Data: "m"})
			}
		case 10:
			items = append(items, tarball.Item{Name: "teleport/random", Data: string(noise(next(64) << 10))})
		case 11:
			items = append(items, tarball.Item{Name: "teleport/examples/systemd/teleport.service", Data: strings.Repeat("u", MaxUnit-5+next(10))})
		case 12:
			cut = 1 + next(1000)
		case 13:
			spoil = 1 + next(1000)
		case 14:
			tail = []string{"\x00", "evil", strings.Repeat("\x00", maxPadding+1), strings.Repeat("\x00", 512)}[next(4)]
		case 15:
			zstd = !zstd
		}
	}
	data := append(tarball.Of(items...), tail...)
	if cut > 500 { // of the archive; else of what is compressed
		data = data[:max(0, len(data)-cut)]
	}
	if zstd {
		data = tarball.Zstd(data)
	} else {
		data = tarball.Gzip(data)
	}
	if cut > 0 && cut <= 500 {
		data = data[:max(0, len(data)-cut)]
	}
	if spoil > 0 {
		data[len(data)*spoil/1001] ^= 0x10
	}
	if len(ops) > 0 && ops[0] == 255 {
		data = append(data, "more"...)
	}
	return data
}

func noise(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(data)
	return data
}

// TestAnErrorOfTheReaderIsNoViolation: a lost connection says nothing about a release.
func TestAnErrorOfTheReaderIsNoViolation(t *testing.T) {
	broke := errors.New("the connection broke")
	data := tarball.Large("15.1.1", 300<<10)
	for _, why := range []error{broke, io.ErrUnexpectedEOF} {
		for cut := 0; cut <= len(data); cut += len(data) / 37 {
			reader := func() io.Reader { return io.MultiReader(bytes.NewReader(data[:cut]), iotest.ErrReader(why)) }
			if found, err := Check(reader(), DefaultLimits()); err != why || len(found) > 0 {
				t.Errorf("Check after %d bytes: %v, %v", cut, found, err)
			}
			if _, err := Unpack(reader(), DefaultLimits(), nowhere{}, func() {}); err != why {
				t.Errorf("Unpack after %d bytes: %v", cut, err)
			}
		}
	}
}

// TestARefusalEndsAReadThatWaits: the sender may be at it for hours.
func TestARefusalEndsAReadThatWaits(t *testing.T) {
	r, w := io.Pipe()
	go w.Write(append([]byte("<!DOCTYPE html>"), make([]byte, 64<<10)...))
	// The pipe before the decompressor fills whole buffers, so send on until it is stopped.
	go func() {
		for {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}()
	stopped := false
	_, err := Unpack(r, DefaultLimits(), nowhere{}, func() {
		stopped = true
		r.CloseWithError(errors.New("stopped"))
	})
	if v, ok := errors.AsType[*Violation](err); !ok || v.Rule != "format" || !stopped {
		t.Errorf("%v, stopped %v", err, stopped)
	}
}

func ExampleCheck() {
	release := tarball.Gzip(tarball.Of(append(tarball.Sound("15.1.1"),
		tarball.Item{Name: "teleport/tsh", Mode: 0o4755},
		tarball.Item{Name: "../etc/passwd"},
	)...))
	violations, err := Check(bytes.NewReader(release), DefaultLimits())
	if err != nil {
		fmt.Println("the tarball cannot be read:", err)
		return
	}
	for _, v := range violations {
		fmt.Println(v.Rule+":", v.Text)
	}
	// Output:
	// mode: entry "teleport/tsh" has mode 04755: no setuid, setgid or sticky files
	// twice: entry "teleport/tsh" comes twice
	// name: entry "../etc/passwd" has a name that is not clean and relative
}
