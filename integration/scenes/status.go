package scenes

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"teleport-update/installer/view"
	"teleport-update/integration/host"
)

// Status is what `teleport-update status` says.
func (s *Scene) Status() view.Status {
	s.T.Helper()
	var r view.Status
	out := s.Must(s.Path, "status", "--format", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.T.Fatalf("status printed %q: %v", out, err)
	}
	return r
}

// StatusIs asserts the state, and that what status prints follows its schema
// and can be read by a person.
func (s *Scene) StatusIs(state string) {
	s.T.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	module, err := host.Module()
	s.Check(err)
	schema, err := c.Compile(filepath.Join(module, "docs", "status.schema.json"))
	s.Check(err)
	out := s.Must(Updater, "status", "--format", "json")
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		s.T.Fatalf("status prints %q: %v", out, err)
	}
	if err := schema.Validate(value); err != nil {
		s.T.Errorf("%s: %v\n%s", state, err, out)
	}
	if got := value.(map[string]any)["state"]; got != state {
		s.T.Errorf("status says %v; want %s:\n%s", got, state, out)
	}
	human := s.Must(Updater, "status", "--format", "text")
	if !strings.Contains(human, state) || strings.Contains(human, "<nil>") {
		s.T.Errorf("%s: as text:\n%s", state, human)
	}
}

// Text is what a field of status says, "nothing" for null.
func Text(p *string) string {
	if p == nil {
		return "nothing"
	}
	return *p
}
