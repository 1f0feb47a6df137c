//go:build hosts

package operator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// screen is a state of a host as status shows it to a person.
type screen struct {
	name   string
	breaks func()
	says   string // what is wrong
	// machine is another machine that the step names, and elsewhere repairs that machine. elsewhere is also the cause that "remove the
	// cause" and "set the clock" leave to the person.
	machine   string
	elsewhere func()
	after     func() // returns to a host that is well
}

// The first five lines of status say what is wrong, since when, and what to type. The typed command ends the state.
func TestTheAdviceOfStatusIsTyped(t *testing.T) {
	s := newScene(t)
	s.Small(programs, "400m", 20000)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.0.0", Edition: version.Enterprise})
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.Release(release.Spec{Version: "1.2.0", Variant: stamp.ExitsAtStart, Unit: release.Unit{NoReload: true}})
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nRestart=no\n")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	s.StatusIs("idle")
	for _, screen := range slices.Concat(screensOfAgent(s), screensOfFiles(s), screensOfServers(s), screensOfVersions(s)) {
		screen.breaks()
		broken := s.Status()
		lines := strings.SplitN(s.Must(updater, "status", "--format", "text"), "\n", 6)
		first := strings.Join(lines[:5], "\n")
		step := regexp.MustCompile(`(?m)^  do: +(.+)$`).FindStringSubmatch(first)
		if len(broken.Conditions) == 0 || step == nil || !strings.Contains(first, screen.says) || !regexp.MustCompile(`(?m)^  since: +\S`).MatchString(first) {
			t.Errorf("%s: the first lines of status are\n%s", screen.name, first)
			continue
		}
		command := regexp.MustCompile("`([^`]+)`").FindStringSubmatch(step[1])
		if command == nil || !strings.Contains(step[1], screen.machine) {
			t.Errorf("%s: no command, or not the machine %q, is in the step %q", screen.name, screen.machine, step[1])
			continue
		}
		if screen.elsewhere != nil {
			screen.elsewhere()
		}
		typed := s.Try("bash", "-c", "PATH=/usr/local/sbin:$PATH; "+command[1])
		about := broken.Conditions[0].Type
		if now := s.Status(); slices.ContainsFunc(now.Conditions, func(c decision.Condition) bool { return c.Type == about }) {
			t.Errorf("%s: after %s, which ends with %d, status says %s: %s\n%s", screen.name, command[1], typed.Code, now.State, now.Explanation, typed.Stderr)
		}
		if screen.after != nil {
			screen.after()
		}
	}
}

func screensOfAgent(s *scene) []screen {
	dies := func() {
		s.Must("systemctl", "kill", "--signal=KILL", "teleport")
		host.Wait(s.T, patience, func() error {
			if now := s.Show("teleport", "ActiveState"); now != "failed" {
				return fmt.Errorf("the agent is %s", now)
			}
			return nil
		})
	}
	const unit = "/etc/systemd/system/teleport.service"
	return []screen{
		{name: "the agent is dead", breaks: dies, says: "the agent of version 1.0.0 fails"},
		{name: "updates are off and the agent is dead", says: "the agent of version 1.0.0 fails",
			breaks: func() { s.Must(updater, "disable"); dies() }, after: func() { s.Must(updater, "enable") }},
		{name: "programs may not be executed", says: "is mounted noexec", breaks: func() { s.Must("mount", "-o", "remount,noexec", programs) }},
		{name: "a unit of the administrator's", says: "systemd uses " + unit,
			breaks: func() {
				s.Must("sh", "-ec", "cp $(systemctl show -p FragmentPath --value teleport) "+unit+"; systemctl daemon-reload")
			},
			after: func() { s.Must("rm", unit+".old") }},
	}
}

func screensOfFiles(s *scene) []screen {
	restart := func() {
		s.Must("systemctl", "restart", "teleport")
		s.Serves("1.0.0")
	}
	return []screen{
		{name: "the tree is missing", says: "/1.0.0/bin/teleport is missing",
			breaks: func() { s.Must("rm", "-r", programs+"/1.0.0") }, after: restart},
		{name: "pinned and broken", says: "1.0.0",
			breaks: func() { s.Must(updater, "pin"); s.Must("rm", programs+"/1.0.0/bin/tsh") },
			after:  func() { s.Must(updater, "unpin"); restart() }},
		{name: "half an uninstall", says: "is missing", breaks: func() {
			s.Must("sh", "-ec", "rm $(systemctl show -p FragmentPath --value teleport-update.timer); systemctl daemon-reload")
		}},
		{name: "times in the future", says: "by the updater's records, find answered last at 2", breaks: func() {
			s.Write(store+"/find.json", regexp.MustCompile(`"time":"\d+`).ReplaceAllString(s.Read(store+"/find.json"), `"time":"2999`))
		}},
		{name: "the disk is full", says: "not enough space on the file system of " + programs,
			breaks:    func() { s.Wants("1.1.0"); s.Leave(programs, 1<<20); s.Tick() },
			elsewhere: func() { s.Must("rm", programs+"/ballast") },
			after:     func() { s.Wants("1.0.0"); s.Must(updater, "rollback"); s.Tick() }},
	}
}

func screensOfServers(s *scene) []screen {
	proxy := "127.0.0.1:3443"
	renew, caFile := s.servesTLS(proxy)
	go http.Serve(cluster.Loopback(s.T, s.Test, "127.0.0.2:3080"), s.clusterElsewhere()) // until the end of the test closes the listener
	back := func() { s.Must(updater, "enable", "--proxy", cluster.ProxyAddress) }
	config := s.Read("/etc/teleport.yaml")
	return []screen{
		{name: "find answers 502", says: "502", machine: cluster.ProxyAddress,
			breaks: func() { s.Breaks(cluster.FindDown); s.Tick() }, elsewhere: func() { s.Breaks(nil) }},
		{name: "the server's certificate has ended", says: "certificate has expired", machine: proxy, elsewhere: renew, after: back,
			breaks: func() {
				renew()
				s.Must(updater, "enable", "--proxy", proxy, "--ca-file", caFile)
				renew()
				s.Tick()
			}},
		{name: "the agent has moved to another proxy", says: "names 127.0.0.2",
			breaks: func() { s.Write("/etc/teleport.yaml", config+"  proxy_server: http://127.0.0.2:3080\n") },
			after:  func() { s.Write("/etc/teleport.yaml", config); back() }},
	}
}

func screensOfVersions(s *scene) []screen {
	return []screen{
		{name: "another edition is wanted", says: "the cluster wants 1.0.0 (enterprise)",
			breaks: func() { s.Set(find.Answer{Version: "1.0.0", Edition: version.Enterprise}) },
			after:  func() { s.Wants("1.0.0"); s.Must(updater, "update", "--now") }},
		{name: "a version backs off", says: "version 1.2.0 failed 1 time",
			breaks:    func() { s.Wants("1.2.0"); s.Fails(1, "was not healthy", updater, "update") },
			elsewhere: func() { s.Release(release.Spec{Version: "1.2.0"}) },
			after:     func() { s.Wants("1.0.0"); s.Must(updater, "rollback"); s.Tick() }},
		{name: "a newer version changed the database", says: "/usr/local/bin/teleport",
			breaks: func() {
				s.Wants("1.1.0")
				s.Must(updater, "update", "--now")
				s.Must(updater, "rollback")
				s.Must("systemctl", "stop", "teleport")
				s.Must("ln", "-sfn", programs+"/1.1.0/bin/teleport", linkDir+"/teleport")
				s.Must("systemctl", "start", "teleport")
				host.Wait(s.T, patience, func() error { return s.Executes(programs + "/1.1.0/bin/teleport") })
			}},
	}
}

// servesTLS serves the cluster by https at an address of the host. The certificate is good after the first call of turn, and has ended after
// the second, and so on.
func (s *scene) servesTLS(address string) (turn func(), caFile string) {
	s.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Check(err)
	made := func(ends time.Time) *tls.Certificate {
		template := &x509.Certificate{SerialNumber: big.NewInt(ends.Unix()), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: ends,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		s.Check(err)
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	good, ended := made(time.Now().Add(24*time.Hour)), made(time.Now().Add(-24*time.Hour))
	var turns atomic.Int32
	current := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if turns.Load()%2 == 1 {
			return good, nil
		}
		return ended, nil
	}
	server := &http.Server{Handler: s.clusterElsewhere(), ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(tls.NewListener(cluster.Loopback(s.T, s.Test, address), &tls.Config{GetCertificate: current}))
	s.T.Cleanup(func() { server.Close() })
	const file = "/root/ca.pem"
	s.Write(file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Certificate[0]})))
	return func() { turns.Add(1) }, file
}

// clusterElsewhere answers as the cluster does, for another address.
func (s *scene) clusterElsewhere() http.Handler {
	s.T.Helper()
	to, err := url.Parse(cluster.ProxyAddress)
	s.Check(err)
	handler := httputil.NewSingleHostReverseProxy(to)
	handler.Transport = &http.Transport{DialContext: s.Dial}
	return handler
}
