package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/sample"
)

// module of tests, each package of which ends in one of the ways that packages
// do.
var packagesOfTests = map[string]string{
	"good": `func TestGood(t *testing.T) { t.Log("not of interest"); t.Log("kill points: 12, violations: 0") }
func TestSkipped(t *testing.T) { t.Skip("SKIPPED, nothing was tested: no root") }`,
	"bad": `func TestBad(t *testing.T) {
	t.Run("fine", func(t *testing.T) { t.Log("not of interest") })
	t.Run("wrong", func(t *testing.T) { t.Log("what was seen"); t.Error("got 1; want 2") })
}`,
	"hangs":  `func TestHangs(t *testing.T) { t.Log("before it hung"); select {} }`,
	"leaves": "func TestLeaves(t *testing.T) { time.Sleep(time.Millisecond); os.Exit(3) }",
	"broken": `func TestBroken(t *testing.T) { undefined() }`,
	"waits":  "func TestWaits(t *testing.T) { t.Log(\"what it waits for\"); os.WriteFile(\"waiting\", nil, 0o644); time.Sleep(time.Hour) }",
}

// runOf runs packages of tests, and returns what was shown.
func runOf(t *testing.T, signals chan os.Signal, flags []string, names ...string) (code int, text string) {
	t.Helper()
	var parts []*part
	for _, name := range names {
		parts = append(parts, newPart(module+"/"+name))
	}
	var out bytes.Buffer
	show := &screen{out: &out, every: 200 * time.Millisecond}
	show.expect(parts)
	run := &test{parts: parts, flags: append([]string{"-count=1"}, flags...)}
	code, _, err := run.execute(time.Now(), signals, show)
	if err != nil {
		t.Fatal(err)
	}
	show.end(time.Minute)
	return code, out.String()
}

func inModule(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files := map[string]string{"go.mod": "module " + module + "\n\ngo 1.26\n"}
	for name, text := range packagesOfTests {
		imports := `import "testing"`
		if strings.Contains(text, "os.") {
			imports = "import (\n\"os\"\n\"testing\"\n\"time\"\n)"
		}
		files[name+"/a_test.go"] = "package " + name + "\n\n" + imports + "\n\n" + text + "\n"
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	return dir
}

func TestWhatIsShownOfTests(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and runs tests of its own")
	}
	inModule(t)
	for _, tc := range []struct {
		name  string
		parts []string
		flags []string
		code  int
		says  []string
		not   []string
		ends  string // the beginning of the last line
	}{
		{"all is well", []string{"good"}, nil, 0,
			[]string{"[1/1] good … ok 0.", "        kill points: 12, violations: 0\n", "1 of 1 parts ok", "skipped: 1 × SKIPPED, nothing was tested: no root"},
			[]string{"not of interest"}, "ok  \tteleport-update/good\t"},
		{"a test fails", []string{"good", "bad"}, []string{"-p=1"}, 1,
			[]string{"[1/2] ", "[2/2] ", "bad … FAIL", "        bad: TestBad/wrong failed after", "what was seen", "got 1; want 2", "--- FAIL: TestBad/wrong", "FAIL\tteleport-update/bad\t", "ok  \tteleport-update/good\t"},
			[]string{"not of interest"}, "FAIL"},
		{"a test hangs until the limit of its package", []string{"hangs"}, []string{"-timeout=3s"}, 1,
			[]string{"hangs … 0.", "running: TestHangs (", "before it hung", "panic: test timed out after 3s", "goroutine ", "FAIL\tteleport-update/hangs\t"}, nil, "FAIL"},
		{"a test ends the program without a word", []string{"leaves"}, nil, 1,
			[]string{"leaves … FAIL", "the program ended in the middle of: TestLeaves"}, nil, "FAIL"},
		{"a package does not compile", []string{"broken", "good"}, nil, 1,
			[]string{"undefined: undefined", "FAIL\tteleport-update/broken [build failed]", "good … ok"}, nil, "FAIL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, text := runOf(t, nil, tc.flags, tc.parts...)
			if code != tc.code {
				t.Errorf("exit code %d; want %d", code, tc.code)
			}
			for _, words := range tc.says {
				if !strings.Contains(text, words) {
					t.Errorf("it does not show %q", words)
				}
			}
			for _, words := range tc.not {
				if strings.Contains(text, words) {
					t.Errorf("it shows %q", words)
				}
			}
			lines := strings.Split(strings.TrimSpace(text), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, tc.ends) {
				t.Errorf("the last line is %q; want %q", last, tc.ends)
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

func TestAnInterruptIsPassedOnAndTellsWhatRan(t *testing.T) {
	dir := inModule(t)
	signals := make(chan os.Signal, 1)
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(dir, "waits", "waiting")); err == nil {
				signals <- syscall.SIGTERM
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	code, text := runOf(t, signals, nil, "waits")
	if code == 0 || !strings.Contains(text, "what it waits for") || !strings.Contains(text, "0 of 1 parts ok") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

func TestAPartIsNamedByItsPathOrItsEnd(t *testing.T) {
	p := newPart(module + "/integration/database")
	for name, want := range map[string]bool{
		"": true, "database": true, "integration/database": true, "./integration/database/": true, "teleport-update/integration/database": true,
		"base": false, "integration": false, "database/x": false,
	} {
		if p.is(name) != want {
			t.Errorf("%s is named by %q: %t; want %t", p.name, name, !want, want)
		}
	}
}

func TestEverySuiteHasPartsThatAreThere(t *testing.T) {
	if testing.Short() {
		t.Skip("it lists the packages of every suite")
	}
	t.Chdir("../..")
	for _, s := range suites {
		tests, err := s.tests()
		if err != nil {
			t.Fatal(err)
		}
		if parts(tests) == 0 {
			t.Errorf("suite %s has no part", s.name)
		}
		for _, run := range tests {
			for _, p := range run.parts {
				if _, err := os.Stat(p.name); err != nil {
					t.Errorf("suite %s: %v", s.name, err)
				}
			}
		}
	}
}

// A part that is long and begins late is waited for alone, on a machine that has nothing
// else to do.
func TestTheLongestPartsOfHostsBeginFirst(t *testing.T) {
	t.Chdir("../..")
	i := slices.IndexFunc(suites, func(s suite) bool { return s.name == "hosts" })
	tests, err := suites[i].tests()
	if err != nil {
		t.Fatal(err)
	}
	all := tests[0].parts
	if len(all) <= len(longest) {
		t.Fatalf("there are %d parts, and %d long ones", len(all), len(longest))
	}
	for n, name := range longest {
		if all[n].name != "integration/"+name {
			t.Errorf("part %d is %s; want integration/%s", n+1, all[n].name, name)
		}
	}
}

func TestTheSlowestTestsAreNamed(t *testing.T) {
	a, b := newPart(module+"/a"), newPart(module+"/b")
	for _, e := range []struct {
		p       *part
		test    string
		seconds float64
	}{{a, "TestLong", 61}, {a, "TestLong/part", 60}, {a, "TestShort", 9}, {b, "TestLonger", 120}, {b, "TestThird", 11}} {
		e.p.take(event{Action: "pass", Test: e.test, Elapsed: e.seconds})
	}
	s := &screen{all: []*part{a, b}}
	got := strings.Join(s.slowest(2), "\n")
	if want := "slow:  120 s  b TestLonger\nslow:   61 s  a TestLong"; got != want {
		t.Errorf("the slowest are\n%s\nwant\n%s", got, want)
	}
}

// Samples have their end from the beginning of the whole run, whatever was tested before them.
// Whole campaigns have none, and packages would not be cached if their environment changed.
func TestSamplesOfHostsEndAtSomeTimeOfTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it lists the packages of every suite")
	}
	t.Chdir("../..")
	began := time.Unix(1_700_000_000, 0)
	want := map[string]string{"packages": "", "hosts": "SAMPLES_UNTIL=1700002700"}
	for _, s := range suites {
		tests, err := s.tests()
		if err != nil {
			t.Fatal(err)
		}
		want, known := want[s.name]
		if !known {
			want = "FAULTS=all"
		}
		for _, run := range tests {
			t.Setenv(sample.Until, "")
			if got := strings.Join(run.environment(began), " "); got != want {
				t.Errorf("%s has %q; want %q", run.parts[0].name, got, want)
			}
			t.Setenv(sample.Until, "1700000060")
			if got := strings.Join(run.environment(began), " "); strings.Contains(got, sample.Until) {
				t.Errorf("%s has %q, and a person chose another end", run.parts[0].name, got)
			}
		}
	}
}

// What `make test` takes is what a person waits for all of it. Parts run three at a
// time, so their sum is another figure.
func TestTheTimeOfAWholeTargetIsThatOfItsWall(t *testing.T) {
	if testing.Short() {
		t.Skip("go lists all packages again and again")
	}
	t.Chdir("../..")
	t.Setenv("FAULTS", "")
	t.Setenv("FAULTS_POINTS", "")
	all := func() (tests []*test, hosts suite) {
		t.Helper()
		for _, s := range suites[:2] {
			list, err := s.tests()
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range list {
				one.suite, one.took = s.name, 10*time.Minute
				for _, p := range one.parts {
					p.ended = true
				}
			}
			tests, hosts = append(tests, list...), s
		}
		tests[0].parts[0].took, tests[0].parts[1].closing = 3*time.Minute, "ok  \tteleport-update/x\t(cached)"
		tests[1].parts[0].took, tests[1].parts[1].took = 11*time.Minute, 9*time.Minute
		tests[1].parts[0].figures = []string{"kill points: 12, violations: 0"}
		return tests, hosts
	}
	for _, tc := range []struct {
		name   string
		change func(tests []*test) []*test
		says   string // how the line begins; empty if there is none
	}{
		{"all of it ran", func(tests []*test) []*test { return tests }, "took: 20 min, in parts 23 min (beside the code 3, "},
		{"the hosts alone ran", func(tests []*test) []*test { return tests[1:] }, ""},
		{"one part was left out", func(tests []*test) []*test { tests[0].parts = tests[0].parts[1:]; return tests }, ""},
		{"a slow machine cut a sample short", func(tests []*test) []*test {
			tests[1].parts[2].figures = []string{"double kills: 12, violations: 0, a slow machine: 12 of 60"}
			return tests
		}, ""},
		{"a part did not end", func(tests []*test) []*test { tests[1].parts[2].ended = false; return tests }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tests, hosts := all()
			f := hosts.measured(tc.change(tests))
			if f.Campaigns[0].Line != "kill points: 12, violations: 0" {
				t.Errorf("the first line is %q", f.Campaigns[0].Line)
			}
			got := ""
			for _, c := range f.Campaigns[1:] {
				got += c.Line
			}
			if !strings.HasPrefix(got, tc.says) || (tc.says == "") != (got == "") {
				t.Errorf("how long it took is told as %q; want %q", got, tc.says)
			}
			if tc.says != "" && !strings.HasSuffix(got, ", cached: 1 parts)") {
				t.Errorf("%q does not tell of the part that was cached", got)
			}
		})
	}
}
