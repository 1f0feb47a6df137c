package rollout

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Whatever the servers write is as docs/resources.schema.json says, and the schema
// takes what Parse takes, in the spelling in which it is printed.
func TestResourcesAreAsTheSchemaSays(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("../../docs/resources.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	check := func(r Resource) {
		t.Helper()
		data, err := JSON(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(data); err != nil {
			t.Fatalf("%s\n%v", data, err)
		}
		// An unknown field in it is one for both.
		wrong := bytes.Replace(data, []byte(`"spec":{`), []byte(`"spec":{"specs":1,`), 1)
		wrong = bytes.Replace(wrong, []byte(`,}`), []byte(`}`), 1)
		if _, err := Parse(wrong); err == nil || valid(wrong) == nil {
			t.Errorf("an unknown field is taken: %s", wrong)
		}
	}
	for _, text := range []string{referenceConfig, referenceVersion, goodNotify} {
		list, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		check(list[0])
	}
	seen := 0
	for i := range uint64(200) {
		h := newHistory(rand.Uint64(), i)
		if problem := h.run(); problem != "" {
			t.Fatal(problem)
		}
		check(h.config)
		check(h.version)
		if h.rollout == nil {
			continue
		}
		seen++
		check(h.rollout)
		check(NewAgentReport("find-1", h.rollout, h.counts(), h.now))
		if len(h.rollout.Status.Groups) > 0 {
			hosts := h.counts().Groups[0].Eligible()
			pages := newPlan(h.rollout, &h.rollout.Status.Groups[0], hosts, h.now).all(t, rand.Uint64)
			page, err := parsePage(pages[len(pages)-1].Value)
			if err != nil {
				t.Fatal(err)
			}
			page.Status = &PlanStatus{LastActiveHostIndex: -1}
			check(&page)
		}
	}
	if seen < 100 {
		t.Errorf("only %d rollouts", seen)
	}
	// Every word of the code is in the schema.
	text := new(strings.Builder)
	for _, row := range transitions {
		text.WriteString(`"` + string(row.reason) + `"`)
	}
	data := readDoc(t, "resources.schema.json")
	for word := range strings.FieldsFuncSeq(text.String(), func(r rune) bool { return r == '"' }) {
		if !strings.Contains(data, `"`+word+`"`) {
			t.Errorf("the schema does not know %s", word)
		}
	}
	for _, c := range conditions {
		if !strings.Contains(data, `"`+string(c.kind)+`"`) {
			t.Errorf("the schema does not know %s", c.kind)
		}
	}
	if !slices.Contains(Kinds, KindConfig) || !slices.Contains(SystemKinds, KindRollout) {
		t.Error("kinds are missing")
	}
}
