package systemd

import (
	"path/filepath"
	"testing"
)

// The names of drop-ins decide which limit counts: what sorts after ours and is shorter is named with its file.
func TestAShorterLimitThanOursIsNamed(t *testing.T) {
	var u Units
	dir := t.TempDir()
	ours := "/usr/lib/systemd/system/teleport-update-recover.service.d/zzzz-teleport-update.conf"
	sorts := filepath.Join(dir, "service.d", "zzzzz-host.conf")
	after := filepath.Join(dir, "teleport-update-recover.service.d", "zzzzzz-other.conf")
	before := filepath.Join(dir, "service.d", "50-host.conf")
	writeFile(t, before, "[Service]\nTimeoutStopSec=1\n")
	writeFile(t, sorts, "[Unit]\nJobRunningTimeoutSec=2\n[Service]\nTimeoutStopSec=1\nLimitCPU=5\nLimitFSIZE=150M\n")
	writeFile(t, after, "[Service]\nNice=5\nTimeoutSec=3\n")
	all := []string{before, ours, sorts, after}
	for name, tc := range map[string]struct {
		unit    string
		dropIns []string
		loaded  map[string]any
		want    string
	}{
		"nothing":                        {dropIns: all},
		"as long as ours":                {dropIns: all, loaded: map[string]any{"TimeoutStopUSec": uint64(7200e6), "LimitCPUSoft": ^uint64(0), "JobTimeoutUSec": ^uint64(0)}},
		"longer":                         {dropIns: all, loaded: map[string]any{"TimeoutStartUSec": uint64(3600e6)}},
		"a stop":                         {dropIns: []string{before, ours, sorts}, loaded: map[string]any{"TimeoutStopUSec": uint64(1e6)}, want: "TimeoutStopSec=1s in " + sorts},
		"two names in one":               {dropIns: all, loaded: map[string]any{"TimeoutStartUSec": uint64(3e6)}, want: "TimeoutStartSec=3s in " + after},
		"a job":                          {dropIns: all, loaded: map[string]any{"JobRunningTimeoutUSec": uint64(2e6)}, want: "JobRunningTimeoutSec=2s in " + sorts},
		"time of the CPU":                {dropIns: all, loaded: map[string]any{"LimitCPUSoft": uint64(5)}, want: "LimitCPU=5s in " + sorts},
		"the size of files":              {dropIns: all, loaded: map[string]any{"LimitFSIZESoft": uint64(150 << 20)}, want: "LimitFSIZE=157286400 in " + sorts},
		"files of any size":              {dropIns: all, loaded: map[string]any{"LimitFSIZESoft": ^uint64(0)}},
		"no drop-in of ours":             {dropIns: []string{before}, loaded: map[string]any{"TimeoutStopUSec": uint64(1e6)}},
		"a run has three hours":          {unit: u.Service(), dropIns: all, loaded: map[string]any{"TimeoutStartUSec": uint64(3600e6)}, want: "TimeoutStartSec=1h0m0s in " + after},
		"the program of a transaction":   {unit: transientPrefix + "x.service", dropIns: all, loaded: map[string]any{"RuntimeMaxUSec": uint64(60e6)}, want: "RuntimeMaxSec=1m0s in " + sorts + ", " + after},
		"a recovery has no longest time": {dropIns: all, loaded: map[string]any{"RuntimeMaxUSec": ^uint64(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.unit == "" {
				tc.unit = u.Recovery()
			}
			loaded := Unit{Name: tc.unit, DropIns: tc.dropIns, Limits: parseLimits(variants(tc.loaded))}
			got := ""
			if short := u.ShortLimit(loaded); short != nil {
				got = short.String()
			}
			if got != tc.want {
				t.Errorf("named is %q; want %q", got, tc.want)
			}
		})
	}
}
