package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"teleport-update/installer/decision"
	"teleport-update/internal/golden"
)

// promtool is the one that is installed, or that "make needed" has unpacked.
func promtool(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	path, err := filepath.Abs("../../build/prometheus/usr/bin/promtool")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skip("SKIPPED, nothing was tested: promtool is not here (make needed unpacks it)")
	}
	return path
}

func TestTheRulesAlertWhenTheyShould(t *testing.T) {
	tool := promtool(t)
	tests, err := filepath.Glob("*.rules.test.yml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}
	for _, file := range tests {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.CommandContext(t.Context(), tool, "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			rules := strings.TrimSuffix(file, ".test.yml") + ".yml"
			if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", "--lint-fatal", rules).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// rule is an alert.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rulesIn(t *testing.T, file string) (all []rule) {
	t.Helper()
	var found struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	readYAML(t, file, &found)
	for _, g := range found.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return all
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// An alert that no test has seen may never come.
func TestEachAlertIsSeenByATest(t *testing.T) {
	rules, err := filepath.Glob("*.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range rules {
		seen := alertsSeen(t, strings.TrimSuffix(file, ".yml")+".test.yml")
		for _, r := range rulesIn(t, file) {
			if !slices.Contains(seen, r.Alert) {
				t.Errorf("%s: no test sees %s", file, r.Alert)
			}
			for _, name := range []string{"summary", "description"} {
				if r.Annotations[name] == "" {
					t.Errorf("%s: %s has no %s", file, r.Alert, name)
				}
			}
			if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				t.Errorf("%s: the severity of %s is %q", file, r.Alert, r.Labels["severity"])
			}
		}
	}
}

// alertsSeen are those that come in some test of a file.
func alertsSeen(t *testing.T, file string) (names []string) {
	t.Helper()
	var found struct {
		Tests []struct {
			Cases []struct {
				Alert  string `yaml:"alertname"`
				Expect []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	readYAML(t, file, &found)
	for _, test := range found.Tests {
		for _, c := range test.Cases {
			if len(c.Expect) > 0 {
				names = append(names, c.Alert)
			}
		}
	}
	return names
}

// The guide says what there is to be alerted of.
func TestTheGuideHasTheAlerts(t *testing.T) {
	for _, file := range []string{"hosts.rules.yml", "find.rules.yml"} {
		text := "\n| alert | severity | after | it says |\n| --- | --- | --- | --- |\n"
		for _, r := range rulesIn(t, file) {
			says := regexp.MustCompile(`{{ \$.*? }}`).ReplaceAllString(r.Annotations["summary"], "…")
			text += fmt.Sprintf("| `%s` | %s | %s | %s |\n", r.Alert, r.Labels["severity"], r.For, says)
		}
		golden.Part(t, "../../docs/monitor.md", "packaging/monitoring/"+file, text)
	}
}

var (
	metric = regexp.MustCompile(`\bteleport_update_\w+`)
	label  = regexp.MustCompile(`\b(state|type)(?:=|!=|=~|!~)"([^"]+)"`)
)

// The guide has all metrics of a host; a program writes it. A rule of a metric or of a label that is not there
// would never alert.
func TestTheRulesOfHostsUseMetricsThatThereAre(t *testing.T) {
	data, err := os.ReadFile("../../docs/monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(data)
	known := metric.FindAllString(guide, -1)
	labels := map[string]bool{}
	for _, c := range decision.Checks {
		labels["state="+string(c.State)], labels["type="+string(c.Type)] = true, true
	}
	for _, r := range rulesIn(t, "hosts.rules.yml") {
		for _, name := range metric.FindAllString(r.Expr, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no metric %s", r.Alert, name)
			}
		}
		for _, m := range label.FindAllStringSubmatch(r.Expr, -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if !labels[m[1]+"="+value] {
					t.Errorf("%s: there is no %s %q", r.Alert, m[1], value)
				}
			}
		}
	}
}

// Every state of a host is some rule's, or one that is no fault.
func TestEveryStateOfAHostIsThoughtOf(t *testing.T) {
	var expressions strings.Builder
	for _, r := range rulesIn(t, "hosts.rules.yml") {
		expressions.WriteString(r.Expr + "\n")
	}
	for _, c := range decision.Checks {
		state := string(c.State)
		harmless := slices.Contains([]string{"idle", "waiting", "updating", "disabled", "pinned", "held"}, state)
		alone := strings.Contains(expressions.String(), `state="`+state+`"`)
		// What the first rule does not exclude, it alerts of.
		excluded := regexp.MustCompile(`[|"]` + state + `[|"]`).MatchString(expressions.String())
		if !harmless && !alone && excluded {
			t.Errorf("no rule alerts of the state %s", state)
		}
		if harmless && !excluded {
			t.Errorf("the state %s is no fault, and the first rule alerts of it", state)
		}
	}
}
