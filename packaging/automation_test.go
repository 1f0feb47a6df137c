package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/version"
)

// answers are what a server could name as the version.
func answers() (all []string) {
	parts := []string{"1.2.3", "1.2", "1.2.3-rc.1", "..", ".", "/", "../../etc", "a b", "$(id)", "`id`", "{{ x }}", "-", "+", "é", "'", "\\", "*", "%2e%2e"}
	all = append(parts, "", "v1.2.3", "1.2.3+build.5", "1.2.3-dev-1", "10.20.30-cloud.1+a.b", "1.2.3--", "1.2.3-a..b", "1.2.3-.", "1.2.3+", "1.2.3.4", "-1.2.3", "1.2.3\n")
	for _, a := range parts {
		for _, b := range parts {
			all = append(all, a+b, a+"/"+b, a+"-"+b, a+"+"+b, a+"\n"+b, a+"\r"+b)
		}
	}
	return all
}

// What the tools without the updater take for a version, the updater does, too: no more.
func TestTheToolsWithoutTheUpdaterTakeVersionsAlone(t *testing.T) {
	script, err := os.ReadFile("automation/update-agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?ms)^is_version\(\) \{.*?^\}\n`).Find(script)
	if function == nil {
		t.Fatal("update-agent.sh has no is_version")
	}
	form := playForm(t)
	all := answers()
	args := append([]string{"-c", string(function) + `for v; do if is_version "$v"; then echo yes; else echo no; fi; done`, "sh"}, all...)
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			t.Logf("NOT TESTED with %s: it is not installed", shell[0])
			continue
		}
		out, err := exec.Command(shell[0], append(slices.Clone(shell[1:]), args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for i, said := range strings.Fields(string(out)) {
			_, err := version.Parse(all[i])
			if want := err == nil && !strings.HasPrefix(all[i], "v"); (said == "yes") != want {
				t.Errorf("%s: %q is a version: %s; want %v", shell, all[i], said, want)
			}
		}
	}
	taken := 0
	for _, v := range all {
		_, err := version.Parse(v)
		want := err == nil && !strings.HasPrefix(v, "v")
		if got := form.MatchString(v); got != want {
			t.Errorf("the play takes %q: %v; want %v", v, got, want)
		}
		if want {
			taken++
		}
	}
	if taken < 5 || taken > len(all)/2 {
		t.Errorf("%d of %d are versions: the test shows nothing", taken, len(all))
	}
}

// playForm is what the play compares the answer with, before it uses it.
func playForm(t *testing.T) *regexp.Regexp {
	t.Helper()
	data, err := os.ReadFile("automation/teleport-agents.yml")
	if err != nil {
		t.Fatal(err)
	}
	var plays []struct {
		Vars struct {
			Form string `yaml:"teleport_version_form"`
		}
		Tasks []map[string]any
	}
	if err := yaml.Unmarshal(data, &plays); err != nil || len(plays) != 1 {
		t.Fatalf("%d plays, %v", len(plays), err)
	}
	asked := false
	for _, task := range plays[0].Tasks {
		text := fmt.Sprint(task)
		if task["ansible.builtin.assert"] != nil && strings.Contains(text, "agent_version | regex_replace('^v', '') is match(teleport_version_form)") {
			asked = true
		} else if strings.Contains(text, "agent_version") && !asked {
			t.Errorf("the answer is used before it is looked at: %s", text)
		}
	}
	if !asked {
		t.Error("the play does not look at the answer")
	}
	return regexp.MustCompile(strings.ReplaceAll(plays[0].Vars.Form, `\Z`, `\z`))
}

// A server that names no version has root change nothing.
func TestAnAnswerThatIsNoVersionChangesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the script runs as root")
	}
	base := ownersBase(t)
	const name = "automation/update-agent.sh"
	for answer, says := range map[string]string{
		"1.1.0": "1.1.0 does not run; back on 1.0.0", "v1.1.0": "1.1.0 does not run; back on 1.0.0",
		"..": "cannot be read", ".": "cannot be read", "../..": "cannot be read", "1.1.0/../../../tmp": "cannot be read", "1.1": "cannot be read", "-1.1.0": "cannot be read",
		"": "names no version",
	} {
		s := scripts[name]
		s.after += "\nexport VERSION='" + answer + "'"
		got := runOn(t, base, name, s, "/opt/teleport-agent/1.0.0/teleport", "", "cp /root/sound $P")
		if !strings.Contains(got.out, says) || got.hung {
			t.Errorf("%q: %s; want %q", answer, got.out, says)
		}
		if changed := strings.Contains(got.out, "daemon-reload"); changed == (says == "cannot be read" || answer == "") {
			t.Errorf("%q: the host was changed: %v", answer, changed)
		}
	}
}
