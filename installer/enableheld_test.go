package installer

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
)

// timed is an agent that can be looked at, and a timer that can be started.
type timed struct{ seen }

func (timed) StartTimer(context.Context, string, bool) error { return nil }
func (timed) DaemonReload(context.Context) error             { return nil }

// An advice of status has a person type enable for a setting. On a host that a rollback holds, enable keeps the hold and the version.
func TestEnableKeepsAHoldAndItsVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		wish     string // of the cluster
		opts     EnableOptions
		heard    bool // find has answered since the rollback
		disabled bool
		damaged  bool
		switches bool
		held     string // the wish
	}{
		"the version that was left":      {wish: "1.2.0", heard: true, held: "1.2.0"},
		"updates are off":                {wish: "1.2.0", heard: true, disabled: true, held: "1.2.0"},
		"the first answer since":         {wish: "1.3.0", held: "1.3.0"},
		"a damaged version":              {wish: "1.2.0", heard: true, damaged: true, held: "1.2.0"},
		"a later wish":                   {wish: "1.3.0", heard: true, switches: true},
		"a person insists on the change": {wish: "1.2.0", opts: EnableOptions{AllowDowngrade: true}, heard: true, switches: true},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"server_edition":"enterprise","agent_version":%q,"agent_autoupdate":true}`, tc.wish)
		}))
		defer srv.Close()
		h := newWellHost(t)
		h.Machine.Host.Program = "/proc/self/exe"
		h.config.Spec.Proxy, h.config.Spec.Enabled = srv.URL, !tc.disabled
		h.config.Status.Held = &state.Held{Version: "1.2.0", Edition: version.Enterprise, LeftVersion: "1.2.0", LeftEdition: version.Enterprise,
			Heard: tc.heard, Since: noon}
		h.state(t)
		look := h.Machine.Connect
		h.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
			a, err := look(ctx)
			return timed{a.(seen)}, err
		}
		if tc.damaged {
			must(t, os.Remove(filepath.Join(h.Machine.Host.Paths.Versions(), "1.1.0", "bin", "teleport")))
		}
		tc.opts.Group = "prod"
		in, err := h.considerEnable(t.Context(), tc.opts, &offer{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := configOf(t, h.Installer)
		switch {
		case tc.switches:
			if in == nil || in.Version != tc.wish || in.Request.Held != nil {
				t.Errorf("%s: the intent is %+v; want a switch to version %s", name, in, tc.wish)
			}
		case tc.damaged: // which is fetched again
			if in == nil || in.Version != "1.1.0" || in.Request.Held == nil || in.Request.Held.Version != tc.held {
				t.Errorf("%s: the intent is %+v", name, in)
			}
		case in != nil || c.Status.Held == nil || c.Status.Held.Version != tc.held || c.Spec.Group != "prod" || !c.Spec.Enabled:
			t.Errorf("%s: the intent is %v, the hold %+v, the settings %+v", name, in, c.Status.Held, c.Spec)
		}
	}
}

// On a host that would switch at once, an advice to run enable for something else says so.
func TestAnAdviceToEnableSaysThatItAlsoSwitches(t *testing.T) {
	held := func(h *wellHost) {
		h.config.Status.Held = &state.Held{Version: "1.2.0", Edition: version.Enterprise, LeftVersion: "1.2.0", LeftEdition: version.Enterprise,
			Heard: true, Since: noon.Add(-time.Hour)}
	}
	advising := map[decision.Type]func(h *wellHost){
		decision.UnitsLate:       func(h *wellHost) { mountUnits(t, h.Installer) },
		decision.UpdatesDisabled: func(h *wellHost) { h.config.Spec.Enabled = false },
		decision.GroupUnknown:    func(h *wellHost) { h.answer.GroupUnknown = true },
		decision.ProxyConflict: func(h *wellHost) {
			writeFile(t, h.Machine.Host.Paths.AgentConfig, "teleport: {proxy_server: other.example.com}\n")
		},
	}
	for name, tc := range map[string]struct {
		change func(h *wellHost)
		says   bool
	}{
		"it is not its turn": {func(*wellHost) {}, true},
		"it is held":         {held, false},
		"it is pinned":       {func(h *wellHost) { h.config.Spec.Pinned = true }, false},
		"it is there":        {func(h *wellHost) { h.answer.Release.Version = "1.1.0" }, false},
	} {
		for by, breaks := range advising {
			h := newWellHost(t)
			h.answer.Release.Version = "1.2.0"
			tc.change(h)
			breaks(h)
			h.state(t)
			_, said := statusSays(t, h.Installer, by)
			if said == "" && by == decision.ProxyConflict && h.config.Spec.Pinned {
				continue // a pinned host follows no cluster
			}
			if said == "" || strings.Contains(said, "`enable` also switches to version 1.2.0 (enterprise) at once") != tc.says {
				t.Errorf("%s, %s: status says %q; want that it also switches: %v", by, name, said, tc.says)
			}
		}
	}
}
