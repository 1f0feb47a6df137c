package transaction

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/ospackage"
)

// While one package is locked, none is removed: each stays on the list, with what is known of it.
func TestALockedPackageHidesNoOther(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	oss, ent := state.Package{Kind: "deb", Name: "teleport", Version: "1"}, state.Package{Kind: "deb", Name: "teleport-ent", Version: "1"}
	third := state.Package{Kind: "deb", Name: "teleport-ent-fips", Version: "1"}
	broken := leftBehind(ent, errors.New("its script failed"), nil, noon.Add(-time.Hour))
	gone := leftBehind(state.Package{Kind: "deb", Name: "gone"}, errors.New("x"), nil, noon.Add(-time.Hour))
	got := allLeft([]state.Package{oss, ent, third}, oss, &ospackage.LockedError{Holder: "apt"}, []state.PackageLeft{broken, gone}, noon)
	if len(got) != 3 || got[0].Name != "teleport" || !reflect.DeepEqual(got[1], broken) || got[2].Name != "teleport-ent-fips" {
		t.Errorf("left are %+v", got)
	}
}
