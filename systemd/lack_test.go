package systemd

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// systemd refuses a start for what cannot be loaded, however far it is needed, and for what has to run and does not.
func TestWhatAUnitLacks(t *testing.T) {
	units := map[string]Unit{
		"up.service":      {LoadState: "loaded", ActiveState: "active"},
		"down.service":    {LoadState: "loaded", ActiveState: "inactive"},
		"begins.service":  {LoadState: "loaded", ActiveState: "activating"},
		"failed.service":  {LoadState: "loaded", ActiveState: "failed"},
		"masked.service":  {LoadState: "masked", ActiveState: "active"},
		"gone.service":    {LoadState: "not-found", ActiveState: "inactive"},
		"outer.service":   {LoadState: "loaded", ActiveState: "active", Ties: Ties{Needs: []Need{{"Requires", "gone.service"}}}},
		"picky.service":   {LoadState: "loaded", ActiveState: "active", Ties: Ties{Needs: []Need{{"Requisite", "down.service"}}}},
		"circle.service":  {LoadState: "loaded", Ties: Ties{Needs: []Need{{"Requires", "a.service"}, {"Requires", "circle.service"}}}},
		"sysinit.target":  {LoadState: "loaded", ActiveState: "active"},
		"dev-sdx1.device": {LoadState: "loaded", ActiveState: "inactive"},
	}
	ask := func(_ context.Context, name string) (Unit, error) {
		u, known := units[name]
		if u.Name = name; !known {
			return u, errors.New("no answer")
		}
		return u, nil
	}
	for _, tc := range []struct {
		need Need
		says string
	}{
		{Need{"Requires", "up.service"}, ""}, {Need{"Requires", "down.service"}, ""}, {Need{"Requires", "failed.service"}, ""},
		{Need{"BindsTo", "down.service"}, ""}, {Need{"BindsTo", "dev-sdx1.device"}, ""}, {Need{"Requisite", "up.service"}, ""},
		{Need{"Requisite", "begins.service"}, ""}, {Need{"Requires", "picky.service"}, ""}, {Need{"Requires", "circle.service"}, ""},
		{Need{"Requires", "sysinit.target"}, ""},
		{Need{"Requires", "masked.service"}, "masked.service, which a.service needs (Requires=), is masked"},
		{Need{"BindsTo", "gone.service"}, "gone.service, which a.service needs (BindsTo=), is not-found"},
		{Need{"Requires", "outer.service"}, "gone.service, which outer.service needs (Requires=), is not-found"},
		{Need{"Requisite", "down.service"}, "down.service, which a.service needs (Requisite=), is inactive"},
		{Need{"Requisite", "failed.service"}, "failed.service, which a.service needs (Requisite=), is failed"},
	} {
		lack, err := LackOf(t.Context(), Unit{Name: "a.service", Ties: Ties{Needs: []Need{{"Requires", "sysinit.target"}, tc.need}}}, ask)
		if err != nil || (lack == nil) != (tc.says == "") || lack != nil && lack.String() != tc.says {
			t.Errorf("%v: %v (%v); want %q", tc.need, lack, err, tc.says)
		}
	}
	if _, err := LackOf(t.Context(), Unit{Ties: Ties{Needs: []Need{{"Requires", "unknown.service"}}}}, ask); err == nil {
		t.Error("systemd did not answer, and nothing is lacking")
	}
	asked := 0
	endless := func(_ context.Context, name string) (Unit, error) {
		asked++
		return Unit{LoadState: "loaded", Ties: Ties{Needs: []Need{{"Requires", fmt.Sprint(asked)}}}}, nil
	}
	if lack, err := LackOf(t.Context(), Unit{Ties: Ties{Needs: []Need{{"Requires", "x"}}}}, endless); lack != nil || err != nil || asked > mostNeeds+1 {
		t.Errorf("%v, %v after %d questions", lack, err, asked)
	}
}
