package health

import (
	"context"
	"errors"
	"strings"
	"testing"

	"teleport-update/systemd"
)

// A limit that ends an agent of any version says nothing about the version that was watched. A person who stopped it says more.
func TestALimitOfTheUnitSaysNothingAboutTheVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		limits  []string
		stopped bool
		blames  string
	}{
		"no limit":                {},
		"LimitAS":                 {limits: []string{"LimitAS=734003200"}, blames: "LimitAS=734003200"},
		"RuntimeMaxSec":           {limits: []string{"RuntimeMaxSec=3s"}, blames: "RuntimeMaxSec=3s"},
		"a person, under a limit": {limits: []string{"RuntimeMaxSec=3s"}, stopped: true},
	} {
		var last sample
		last.unit.Name, last.unit.Ties.Startup.EndsService = "teleport.service", tc.limits
		_, err := (&watching{}).outcome(context.Background(), last, verdict{kind: unhealthy, reason: "exited with status 2", stopped: tc.stopped}, nil)
		u, ok := errors.AsType[*UnhealthyError](err)
		if !ok || (u.Prevented != nil) != (tc.blames != "") || !strings.Contains(u.Error(), tc.blames) {
			t.Errorf("%s: %v, prevented by %v", name, err, u.Prevented)
		}
		if again := u.blaming(systemd.Unit{}); again.Prevented != u.Prevented {
			t.Errorf("%s: another unit changes the blame: %v", name, again.Prevented)
		}
	}
}
