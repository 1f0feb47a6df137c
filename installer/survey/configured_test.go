package survey

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// leadsTo is a host whose unit leads the agent to a configuration.
type leadsTo struct {
	counted
	path string
}

func (l leadsTo) Path() (string, error) { return l.path, nil }

func TestAConfigurationIsThereAtTheEndOfItsLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		target     string // of the link that the unit leads to
		configured bool
		err        error
	}{
		"a file":       {target: "file", configured: true},
		"missing":      {target: "missing"},
		"below a file": {target: "file/teleport.yaml"},
		"in a circle":  {target: "link", err: unix.ELOOP},
	} {
		t.Run(name, func(t *testing.T) {
			c := counted{reads: map[string]int{}}
			s, root := surveyOf(t, c)
			link := filepath.Join(root, "link")
			if err := errors.Join(os.WriteFile(filepath.Join(root, "file"), nil, 0o600), os.Symlink(tc.target, link)); err != nil {
				t.Fatal(err)
			}
			s.from.Configuration = leadsTo{c, link}
			configured, err := s.Configured()
			if configured != tc.configured || !errors.Is(err, tc.err) {
				t.Errorf("%t, %v; want %t, %v", configured, err, tc.configured, tc.err)
			}
		})
	}
}
