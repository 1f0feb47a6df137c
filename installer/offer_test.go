package installer

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions/fetch"
)

const offeredByFind = "https://find.example.com:3443/releases/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}.tar.gz"

// A first enable that find's version would take back is refused.
func refusedWorld(t *testing.T) (w *world, said *bytes.Buffer) {
	w = newWorld(t)
	must(t, os.Remove(w.Machine.Host.Paths.Config()))
	agent := filepath.Join(w.Machine.Host.Paths.LinkDir, "teleport")
	writeFile(t, agent, "#!/bin/sh\necho Teleport v9.0.0 git:v9.0.0 go1.27\n")
	must(t, os.Chmod(agent, 0o755))
	w.Machine.Scheduled, said = false, new(bytes.Buffer)
	w.Machine.Host.Log = slog.New(slog.NewTextHandler(said, nil))
	return w, said
}

func TestARefusedEnableShowsTheTemplateThatFindOffers(t *testing.T) {
	const hint = "; the find server offers a URL template, which is used only if you name it: "
	for name, tc := range map[string]struct {
		offers    string
		templates []string
		shows     string // the template as a shell takes it
		warns     string
	}{
		"a template":              {offers: offeredByFind, shows: "'" + offeredByFind + "'"},
		"with a quote":            {offers: "https://find.example.com/it's/{{.Version}}", shows: `'https://find.example.com/it'\''s/{{.Version}}'`},
		"nothing":                 {},
		"to whom has one":         {offers: offeredByFind, templates: []string{"file:///srv/{{.Version}}.tar.gz"}},
		"a folder":                {offers: "file:///tmp/{{.Version}}.tar.gz", warns: "no web server"},
		"user info":               {offers: "https://ann:marked@find.example.com/{{.Version}}", warns: "no user info"},
		"a gigabyte":              {offers: `https://find.example.com/{{printf "%999999d" 1}}/{{.Version}}`, warns: "not one of values and if"},
		"what is no URL":          {offers: "teleport", warns: "URL template"},
		"more than fits":          {offers: offeredByFind + strings.Repeat("x", find.MaxReleaseTemplate)},
		"a terminal's sequence":   {offers: offeredByFind + "\u009b31m"},
		"text from right to left": {offers: offeredByFind + "\u202e"},
	} {
		t.Run(name, func(t *testing.T) {
			w, said := refusedWorld(t)
			w.wants.ReleaseTemplate = tc.offers
			err := w.Enable(t.Context(), EnableOptions{Proxy: w.url, Group: "it", Templates: tc.templates})
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "this host runs version 9.0.0") {
				t.Fatalf("it is not refused for the version: %v", err)
			}
			_, shown, _ := strings.Cut(err.Error(), hint)
			want := ""
			if tc.shows != "" {
				want = EnableOptions{}.command(w.Machine.Host.Paths) + " --proxy " + w.url + " --group it --template " + tc.shows
			}
			if shown != want {
				t.Errorf("it shows %q; want %q", shown, want)
			}
			if noted := strings.Contains(said.String(), "the find server has releases"); noted != (tc.shows != "") ||
				noted && !strings.Contains(said.String(), fetch.DefaultTemplate[:20]) {
				t.Errorf("it names its source: %v; want %v: %s", noted, tc.shows != "", said)
			}
			if warned := strings.Contains(said.String(), "cannot be used"); warned != (tc.warns != "") || !strings.Contains(said.String(), tc.warns) {
				t.Errorf("want a warning with %q: %s", tc.warns, said)
			}
			if strings.Contains(said.String()+err.Error(), "marked") {
				t.Errorf("a secret is shown: %v\n%s", err, said)
			}
			if data, err := os.ReadFile(w.Machine.Host.Paths.Config()); err == nil && strings.Contains(string(data), "template") {
				t.Errorf("the configuration has it: %s", data)
			}
		})
	}
}

func TestWhichFailuresShowTheTemplateThatFindOffers(t *testing.T) {
	w := newWorld(t) // whose mirror has nothing
	c, err := w.Machine.Host.Paths.LoadConfig()
	must(t, err)
	in := &intent{wanted: wanted{Release: version.Release{Version: "1.1.0", Edition: version.OSS}, Config: c, Spec: c.Spec}}
	in.Request.Kind = transaction.Enable
	unfetched := w.carryOut(t.Context(), in)
	if unfetched == nil {
		t.Fatal("there is something on the mirror")
	}
	for name, tc := range map[string]struct {
		err   error
		shown bool
	}{
		"no mirror has it":    {unfetched, true},
		"refused":             {failure.Unchanged("no").Refused(), true},
		"an unhealthy agent":  {errors.New("the agent did not become healthy"), false},
		"another run":         {&state.BusyError{}, false},
		"a program that dies": {&SmokeError{Err: errors.New("exit status 1")}, false},
	} {
		o := offer{offeredByFind}
		got, unfit := o.withCommand(tc.err, EnableOptions{Proxy: "find.example.com:3443"}, state.DefaultPaths())
		want := "--proxy find.example.com:3443 --template '" + offeredByFind + "'"
		if shown := strings.HasSuffix(got.Error(), want); shown != tc.shown || unfit != nil || !errors.Is(got, tc.err) {
			t.Errorf("%s: %v (%v)", name, got, unfit)
		}
	}
}

// The timer asks the same server, and takes nothing of it.
func TestTheTimerTakesNoTemplateThatFindOffers(t *testing.T) {
	w := newWorld(t)
	w.wants.ReleaseTemplate = w.url + "/offered/{{.Version}}.tar.gz"
	_, err := w.tick()
	if err == nil || strings.Contains(err.Error(), "offer") || len(w.asked) == 0 {
		t.Errorf("the run ends with %v, after %v", err, w.asked)
	}
	for path := range w.asked {
		if !strings.HasPrefix(path, "/a/") {
			t.Errorf("%s was asked for", path)
		}
	}
	for _, path := range []string{w.Machine.Host.Paths.Config(), w.Machine.Host.Paths.LastAnswer()} {
		data, err := os.ReadFile(path)
		must(t, err)
		if strings.Contains(string(data), "/offered/") {
			t.Errorf("%s: %s", path, data)
		}
	}
}
