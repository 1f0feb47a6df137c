package host

import (
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/systemd"
)

// What a unit says of the agent is lost with its file: nobody is to remove it to get on, and a removal is no permission
// to start the agent without it.
func TestAUnitThatIsInTheWayIsNotLost(t *testing.T) {
	for name, tc := range map[string]struct {
		unit    systemd.Unit
		file    bool   // of the unit in use is there
		enabled bool   // before
		folder  string // of the unit in use, if ours is in /etc
		says    string // empty: nothing is in the way
	}{
		"removed under an agent that runs":    {unit: systemd.Unit{LoadState: "not-found", MainPID: 7}, says: "put the file back"},
		"removed, and the agent is down":      {unit: systemd.Unit{LoadState: "not-found"}},
		"an agent that is ours, and is to be": {unit: systemd.Unit{LoadState: "not-found", MainPID: 7}, enabled: true},
		"left in the usual folder":            {unit: systemd.Unit{LoadState: "loaded", MainPID: 7}, folder: layout.UnitDir},
		"a package's":                         {unit: systemd.Unit{LoadState: "loaded", MainPID: 7}, folder: layout.PackageUnitDir},
		"made by a generator":                 {unit: systemd.Unit{LoadState: "loaded", MainPID: 7}, folder: "/run/systemd/generator", says: "takes precedence"},
		"elsewhere":                           {unit: systemd.Unit{LoadState: "loaded", MainPID: 7}, file: true, says: "into a drop-in"},
		"elsewhere, and removed":              {unit: systemd.Unit{LoadState: "loaded", MainPID: 7}, says: "`systemctl daemon-reload`"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			if tc.enabled {
				if err := h.WriteOriginals(Originals{}); err != nil {
					t.Fatal(err)
				}
			}
			u := tc.unit
			u.Name = "teleport.service"
			if u.LoadState == "loaded" {
				u.FragmentPath = filepath.Join(t.TempDir(), "teleport.service")
			}
			if tc.file {
				writeFile(t, u.FragmentPath, "[Service]\n")
			}
			if tc.folder != "" {
				h.Paths.UnitDir, u.FragmentPath = layout.ConfigDir, filepath.Join(tc.folder, u.Name)
			}
			err := h.CheckUnit(u)
			refused := failure.Is[*failure.RefusedError](err)
			if refused != (tc.says != "") || refused && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it ends with %v; want %q", err, tc.says)
			}
		})
	}
}
