package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// test is one call of go test.
type test struct {
	suite   string
	parts   []*part
	flags   []string // of go test
	faults  bool     // whole campaigns
	sampled bool     // its random samples are cut short on a slow machine
	warning string
	took    time.Duration // all of it; its parts run side by side
}

// suite says what is run under a name.
type suite struct {
	name   string
	target string // of make, as the docs name it
	tests  func() ([]*test, error)
}

var suites = []suite{
	{"packages", "make test", func() ([]*test, error) {
		parts, err := packages("./...")
		// Those run with the hosts, with more of their tests.
		parts = slices.DeleteFunc(parts, func(p *part) bool { return strings.HasPrefix(p.name, "integration/") })
		return []*test{{parts: parts, flags: append(slices.Clone(buildFlags), patient)}}, err
	}},
	{"hosts", "make test", func() ([]*test, error) {
		parts, err := packages("./integration/...", hostTags)
		longestFirst(parts)
		// Three at a time: hosts wait as long as they compute, and two parts left two
		// processors idle for a third of the time.
		t := &test{parts: parts, sampled: true, flags: append(slices.Clone(hostFlags), "-count=1", "-p=3", patient)}
		if os.Geteuid() != 0 {
			t.warning = "NOT TESTED: real hosts need root; run this as root"
		}
		return []*test{t}, err
	}},
	{"faults", "make test-faults", func() ([]*test, error) {
		return []*test{
			campaign("installer/transaction", "10m", "TestEveryPhaseEachCallEachOutcome"),
			campaign("integration/hostfaults", "100m", "TestATransactionKilledAtEveryCall|TestATransactionCutOffByASoftReboot|TestAReplacementKilledAtEveryCall|TestPowerCutsOfWholeHosts|TestPowerCutsOfReplacements|TestAFullHost"),
			campaign("integration/others", "90m", ""),
			campaign("integration/others/before", "90m", ""),
			campaign("integration/others/pairs", "90m", ""),
			campaign("integration/faults", "60m", ""),
			campaign("integration/powercut", "80m", "TestAPowerCut"),
			campaign("integration/findfaults", "60m", ""),
			campaign("find/store", "20m", "TestEveryWriteOfTheStore"),
			campaign("find/server", "20m", "TestAHistoryOfTwoServers"),
			campaign("integration/hostile", "15m", ""),
			campaign("integration/database", "30m", "TestTheDrill"),
		}, nil
	}},
	{"fleet", "make test-fleet", func() ([]*test, error) { return []*test{campaign("integration/fleet", "30m", "")}, nil }},
	{"nightly", "make test-nightly", func() ([]*test, error) {
		return []*test{
			campaign("integration/hostfaults", "30m", "TestATakeOverKilledAtEveryCall|TestPowerCutsOfTakeOvers"),
			campaign("integration/hostfaults", "90m", "TestARestoreOnASlowDisk"),
			campaign("integration/powercut", "4h", "TestEveryState"),
			campaign("integration/repository", "60m", ""),
			campaign("integration/fleetguides", "30m", "TestPages|TestAScriptThroughAProxy"),
			campaign("integration/packages", "30m", "TestThePackagesPolicy|TestCosigns|TestTwoBuilds"),
			campaign("integration/page", "20m", ""),
			campaign("integration/units", "20m", "TestAWantedUnit"),
			campaign("integration/health", "30m", "TestEverySettingInACanary"),
			campaign("find/store/postgres", "10m", "TestAPooler"),
		}, nil
	}},
}

// patient is no measure of anything: where a part hangs, its tests have limits of their
// own. On a slow machine a part may take ten times as long as on an ordinary one.
const patient = "-timeout=80m"

// samplesEnd is after how much of a run no sample has another case. An ordinary machine is
// done with all of it in half an hour. A slow one has the time that is left for the tests
// that are no samples.
const samplesEnd = 45 * time.Minute

// longest are the parts of hosts that take minutes, the longest one first: go test
// begins them in the order in which they are named, and what is begun last is waited
// for alone. Those with random samples come after the others, and have the time that is
// left.
var longest = []string{
	"guides", "recovery", "packages", "units", "database", "health", "takeover", "selfupdate", "fleetguides", "repository", "operator", "network", "hostile",
	"hostfaults", "faults", "others", "others/before", "others/pairs", "powercut", "clusterfaults",
}

func longestFirst(parts []*part) {
	place := func(p *part) int {
		if i := slices.Index(longest, strings.TrimPrefix(p.name, "integration/")); i >= 0 {
			return i
		}
		return len(longest)
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return place(a) - place(b) })
}

// hostTags are those of tests of hosts.
const hostTags = "-tags=hosts"

var (
	// buildFlags leave out the vet of go test, which make lint has of all packages, and
	// trim the paths as the programs that tests build have them: otherwise all of the
	// library and of the modules would be compiled twice.
	buildFlags = []string{"-trimpath", "-vet=off"}
	hostFlags  = append([]string{hostTags}, buildFlags...)
)

const module = "teleport-update"

// campaign is a package's whole campaign: all tests of that name, or all.
func campaign(pkg, limit, run string) *test {
	t := &test{parts: []*part{newPart(path.Join(module, pkg))}, faults: true,
		flags: append(slices.Clone(hostFlags), "-count=1", "-timeout="+limit)}
	if run != "" {
		t.flags = append(t.flags, "-run="+run)
	}
	return t
}

func suiteNames() (names []string) {
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

// packages are the packages that match a pattern and have tests.
func packages(pattern string, flags ...string) (parts []*part, err error) {
	args := append(append([]string{"list"}, flags...), "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", pattern)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		parts = append(parts, newPart(name))
	}
	return parts, nil
}

// plan is what to run. With a part, that part alone, in each suite that has it.
func plan(names []string, only string) (tests []*test, err error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("which suite? %s", strings.Join(suiteNames(), ", "))
	}
	var known []string
	for _, name := range names {
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no suite %q, but %s", name, strings.Join(suiteNames(), ", "))
		}
		all, err := suites[i].tests()
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			t.suite = name
			for _, p := range t.parts {
				known = append(known, p.name)
			}
			t.parts = slices.DeleteFunc(t.parts, func(p *part) bool { return !p.is(only) })
			if len(t.parts) > 0 {
				tests = append(tests, t)
			}
		}
	}
	if len(tests) == 0 {
		slices.Sort(known)
		return nil, fmt.Errorf("there is no part %q; the parts are\n\t%s", only, strings.Join(slices.Compact(known), "\n\t"))
	}
	return tests, nil
}
