//go:build hosts

package operator

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

func TestADisabledHostAsksNobody(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")

	s.Must(updater, "disable")
	asked := s.Asked.Load()
	s.Must(updater, "update")
	s.Must(updater, "update", "--now")
	if code := s.Tick(); code != 0 {
		t.Errorf("the timer's run ends with %d", code)
	}
	if n := s.Asked.Load() - asked; n != 0 {
		t.Errorf("a disabled host asked find %d times", n)
	}
	s.Serves("1.0.0")
	if r := s.Status(); r.State != decision.Disabled || r.UpdatesEnabled {
		t.Errorf("status: %s, enabled %v", r.State, r.UpdatesEnabled)
	}

	s.Must(updater, "enable") // proxy and template are known
	s.Serves("1.1.0")
	if r := s.Status(); r.State != decision.Idle || !r.UpdatesEnabled {
		t.Errorf("status after enable: %s, enabled %v", r.State, r.UpdatesEnabled)
	}
}

func TestAPinnedHostFollowsNobody(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.Fails(1, "there is no active version to pin", updater, "pin")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.2.0")
	stays := func(v string) {
		t.Helper()
		downloaded := s.Downloaded.Load()
		s.Must(updater, "update")
		s.Must(updater, "update", "--now")
		if code := s.Tick(); code != 0 {
			t.Errorf("the timer's run ends with %d", code)
		}
		if n := s.Downloaded.Load() - downloaded; n != 0 {
			t.Errorf("a pinned host downloaded %d bytes", n)
		}
		s.Serves(v)
		if r := s.Status(); r.State != decision.Pinned || !r.Pinned {
			t.Errorf("status: %s, pinned %v", r.State, r.Pinned)
		}
	}

	s.Must(updater, "pin")
	stays("1.0.0")
	s.Fails(1, "1.5.0", updater, "pin", "1.5.0") // there is no such release
	stays("1.0.0")
	s.Must(updater, "pin", "1.1.0")
	stays("1.1.0")

	s.Must(updater, "unpin")
	if code := s.Tick(); code != 0 {
		t.Errorf("the timer's run ends with %d", code)
	}
	s.Serves("1.2.0")
	if r := s.Status(); r.Pinned || r.State != decision.Idle {
		t.Errorf("status after unpin: %s, pinned %v", r.State, r.Pinned)
	}
}

func TestTheTimersRunLeavesATransactionByHandAlone(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", scenes.Longer)
	s.Wants("1.1.0")

	byHand := s.Background(host.Command{Args: []string{updater, "update"}})
	s.Switching("1.1.0")
	goOn := s.Pauses()
	if code := s.Tick(); code != 0 {
		t.Errorf("the timer's run ends with %d", code)
	}
	s.StatusIs("updating")
	if log := s.Log("teleport-update.service"); !strings.Contains(log, "another updater is at work") {
		t.Errorf("the timer's run does not say why it did nothing:\n%s", log)
	}
	goOn()
	s.Ends(byHand, 0)
	s.Serves("1.1.0")
	s.Switched(1, "1.1.0")
}

func TestACommandByHandWaitsForTheTimersRun(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")

	s.Must("systemctl", "start", "--no-block", "teleport-update.service")
	s.Switching("1.1.0")
	r := s.Try(updater, "update")
	if r.Code != 0 || !strings.Contains(r.Stderr, "1.1.0 is active and wanted") || strings.Contains(r.Stderr, "cut off") {
		t.Errorf("the command by hand ends with %d:\n%s", r.Code, r.Stderr)
	}
	s.Serves("1.1.0")
	s.Switched(1, "1.1.0")
}

// The timer's run holds no lock while it downloads. What a person does in that
// time goes first, and is no failure of the timer's unit.
func TestARollbackByHandWhileTheTimersRunDownloads(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Serves("1.1.0")

	downloading, goOn := s.holdDownloads()
	s.Wants("1.2.0")
	s.Must("systemctl", "start", "--no-block", "teleport-update.service")
	<-downloading
	rollback := s.Background(host.Command{Args: []string{updater, "rollback"}})
	s.Switching("1.0.0")
	goOn()
	s.Ends(rollback, 0)
	s.Serves("1.0.0")
	host.Wait(t, patience, func() error {
		if state := s.Show("teleport-update.service", "ActiveState"); state != "inactive" {
			return fmt.Errorf("the timer's unit is %s", state)
		}
		return nil
	})
	s.Serves("1.0.0")
	s.Switched(0, "1.2.0")
}

func TestTwoDownloadsAtOnceAreOne(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	downloading, goOn := s.holdDownloads()
	s.Wants("1.1.0")
	first := s.Background(host.Command{Args: []string{updater, "update"}})
	<-downloading
	if code := s.Tick(); code != 0 {
		t.Errorf("the timer's run ends with %d", code)
	}
	second := s.Background(host.Command{Args: []string{updater, "update"}})
	downloaded := s.Downloaded.Load()
	goOn()
	s.Ends(first, 0)
	s.Ends(second, 0)
	s.Serves("1.1.0")
	s.Switched(1, "1.1.0")
	if n, size := s.Downloaded.Load()-downloaded, s.tarballSize("1.1.0"); n != size {
		t.Errorf("%d bytes were downloaded of a tarball of %d", n, size)
	}
}

func TestProxyAndGroupAreTheAgents(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Wants("1.0.0")
	s.Fails(1, "no proxy address is known", updater, "enable", "--template", cluster.TemplateURL)
	asked := s.listenToQuestions()

	agentConfig := func(group string) {
		s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  proxy_server: "+cluster.ProxyAddress+"\n  upgrade_group: "+group+"\n")
	}
	agentConfig("staging")
	s.Must(updater, "enable", "--template", cluster.TemplateURL, "--health-window", "1s")
	if q := asked(); q.Get("group") != "staging" || q.Has("host") {
		t.Errorf("enable asks %v; want group staging, and no host before the agent has run", q)
	}
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Serves("1.0.0")
	agentConfig("production")
	if code := s.Tick(); code != 0 {
		t.Errorf("the timer's run ends with %d", code)
	}
	if q := asked(); q.Get("group") != "production" || q.Get("host") != strings.TrimSpace(s.Read("/var/lib/teleport/host_uuid")) {
		t.Errorf("after the group was changed the timer's run asks %v", q)
	}
	if r := s.Status(); scenes.Text(r.Group) != "production" || scenes.Text(r.Proxy) != cluster.ProxyAddress {
		t.Errorf("status: group %s, proxy %s", scenes.Text(r.Group), scenes.Text(r.Proxy))
	}

	s.Must(updater, "enable", "--group", "canary")
	s.Tick()
	if q := asked(); q.Get("group") != "canary" {
		t.Errorf("after a group was given the timer's run asks %v", q)
	}
}

// holdDownloads makes tarballs wait until goOn is called. The channel is closed
// when the first is asked for.
func (s *scene) holdDownloads() (asked <-chan struct{}, goOn func()) {
	begun, free := make(chan struct{}), make(chan struct{})
	var once, freed sync.Once
	s.Breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".tar.gz") {
			return false
		}
		once.Do(func() { close(begun) })
		select {
		case <-free:
		case <-s.T.Context().Done():
		}
		return false
	})
	return begun, func() { freed.Do(func() { close(free) }) }
}

// listenToQuestions returns what the last question to find was.
func (s *scene) listenToQuestions() func() url.Values {
	var mu sync.Mutex
	var last url.Values
	s.Breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/webapi/find") {
			mu.Lock()
			last = r.URL.Query()
			mu.Unlock()
		}
		return false
	})
	return func() url.Values {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func (s *scene) tarballSize(v string) int64 {
	s.T.Helper()
	info, err := os.Stat(filepath.Join(s.Releases, release.Name(v, version.OSS)))
	if err != nil {
		s.T.Fatal(err)
	}
	return info.Size()
}
