package installer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// world is a host whose timer runs, its cluster and its mirror.
type world struct {
	*testing.T
	*Installer
	clock    time.Time
	boot     string
	wants    find.Answer
	jitter   int             // of find's answers, in seconds
	status   int             // of find's answers
	checksum string          // what the mirror announces; empty: nothing is there
	asked    map[string]bool // the paths that the mirror was asked for
	url      string
	finds    int // how often find was asked
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, Installer: testInstaller(t), clock: noon, boot: "boot", status: 200, asked: map[string]bool{}}
	w.wants = find.Answer{Version: "1.1.0", Edition: version.OSS, AutoUpdate: true}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/find") {
			w.finds++
			rw.WriteHeader(w.status)
			fmt.Fprintf(rw, `{"server_edition":%q,"agent_version":%q,"agent_autoupdate":%v,"agent_update_jitter_seconds":%d,"agent_group_unknown":%v,"release_template":%q}`, w.wants.Edition, w.wants.Version, w.wants.AutoUpdate, w.jitter, w.wants.GroupUnknown, w.wants.ReleaseTemplate)
			return
		}
		w.asked[r.URL.Path] = true
		switch {
		case w.checksum == "":
			http.NotFound(rw, r)
		case strings.HasSuffix(r.URL.Path, ".sha256"):
			fmt.Fprintln(rw, w.checksum)
		default:
			fmt.Fprint(rw, "no tarball")
		}
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	w.Machine.Scheduled, w.Machine.Host.Paths.RunDir = true, filepath.Join(filepath.Dir(w.Machine.Host.Paths.DataDir), "run")
	w.Machine.Now, w.Machine.BootID = func() time.Time { return w.clock }, func() string { return w.boot }
	w.Jitter = func(time.Duration) time.Duration { return 0 }
	w.Machine.Connect = sightOf(w.Installer, func(u *systemd.Unit, _ *string) { u.ActiveState = "" })
	w.configure("/a")
	return w
}

func (w *world) configure(folder string) {
	c := state.EmptyConfig()
	c.Spec.Proxy, c.Spec.Enabled, c.Spec.URLTemplates = w.url, true, []string{w.url + folder + "/{{.Version}}.tar.gz"}
	writeFile(w.T, w.Machine.Host.Paths.Config(), "")
	must(w.T, c.Save(w.Machine.Host.Paths.Config()))
}

// tick runs once and reports whether the mirror was asked for the tarball.
func (w *world) tick() (asked bool, err error) {
	w.Helper()
	clear(w.asked)
	err = w.Update(w.Context(), UpdateOptions{})
	for path := range w.asked {
		asked = asked || path != "/a/1.1.0.tar.gz.sha256" || w.checksum == ""
	}
	return asked, err
}

func (w *world) state() view.Status {
	w.Helper()
	r, err := w.Status(w.Context(), StatusOptions{})
	must(w.T, err)
	validate(w.T, r)
	return r
}

// failFor has the timer run every ten minutes, and returns when the mirror was asked.
func (w *world) failFor(d time.Duration) (asked []int) {
	w.Helper()
	for end := w.clock.Add(d); w.clock.Before(end); w.clock = w.clock.Add(10 * time.Minute) {
		yes, err := w.tick()
		if yes {
			asked = append(asked, int(w.clock.Sub(noon)/time.Minute))
		}
		if yes != (err != nil) {
			w.Errorf("minute %v: the mirror was asked: %v, and the run ends with %v", w.clock.Sub(noon), yes, err)
		}
	}
	return asked
}

// cause changes what the last failure is remembered to depend on.
func (w *world) cause(change func(*state.Cause)) {
	m := w.ticks()
	change(&m.Failing.Cause)
	must(w.T, m.Save(w.Machine.Host.Paths.Ticks()))
}

func (w *world) locked(do func()) {
	unlock, err := state.Lock(w.Context(), w.Machine.Host.Paths.UpdateLock(), 0)
	must(w.T, err)
	do()
	unlock()
}
